"""The keys of an account file.

Source: RocketMQ 4.9.8, AclConstants.
"""

from typing import Final

WHITE_ADDRESSES: Final = "globalWhiteRemoteAddresses"
ACCOUNTS: Final = "accounts"
VERSION: Final = "dataVersion"

ACCESS_KEY: Final = "accessKey"
SECRET_KEY: Final = "secretKey"
WHITE_ADDRESS: Final = "whiteRemoteAddress"
ADMIN: Final = "admin"
TOPIC_DEFAULT: Final = "defaultTopicPerm"
GROUP_DEFAULT: Final = "defaultGroupPerm"
TOPICS: Final = "topicPerms"
GROUPS: Final = "groupPerms"

COUNTER: Final = "counter"
TIMESTAMP: Final = "timestamp"

OF_FILE: Final = (WHITE_ADDRESSES, ACCOUNTS, VERSION)
OF_ACCOUNT: Final = (
    ACCESS_KEY,
    SECRET_KEY,
    WHITE_ADDRESS,
    ADMIN,
    TOPIC_DEFAULT,
    GROUP_DEFAULT,
    TOPICS,
    GROUPS,
)

CHARACTERS_LEAST: Final = 7
"""Characters of an access key and of a secret; Apache's text says "longer than 6"."""
