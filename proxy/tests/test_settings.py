"""Configuration: Apache's keys in, a checked value out, and a mistake is named."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy._settings import ConfigError, Settings, parse_properties
from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.nameserver import NameServerConfig
from lanemq.storage import FlushMode, Stage


def broker(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties(properties, source="broker.conf")


def test_a_configuration_of_apache_is_read() -> None:
    text = b"""
# the example that Apache ships, and a little more
brokerClusterName = DefaultCluster
brokerName=broker-a
brokerId=0
deleteWhen=04
fileReservedTime=48
brokerRole=ASYNC_MASTER
flushDiskType=SYNC_FLUSH
namesrvAddr: 10.0.0.1:9876; 10.0.0.2:9876
storePathRootDir=/data/store\t
brokerIP1=10.1.2.3
"""
    config = BrokerConfig.from_properties(parse_properties(text, source="broker.conf"))
    assert (config.broker_name, config.file_reserved_time) == ("broker-a", 48)
    assert config.flush_disk_type is FlushMode.SYNC
    assert config.name_servers == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert config.store_path_root_dir == Path("/data/store")
    assert config.advertised_host == "10.1.2.3"


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("brokerNme", "brokerName"),
        ("autoCreateTopicEnabled", "autoCreateTopicEnable"),
        ("FlushDiskType", "flushDiskType"),
        ("brokerip1", "brokerIP1"),
        ("haListenport", "haListenPort"),
        # a switch that nobody reads
        ("rocksdbCQWriteEnabled", "rocksdbCQWriteEnable"),
        ("rocksdbCqDoubleWriteEnable", "rocksdbCQDoubleWriteEnable"),
        ("transferMetadataJsonToRocksDB", "transferMetadataJsonToRocksdb"),
        ("transferOffsetsJsonToRocksdb", "transferOffsetJsonToRocksdb"),
        ("realTimePersistRocksdbConfig", "realTimePersistRocksDBConfig"),
        ("exportJsonAtShutdown", "exportJsonOnShutdown"),
    ],
)
def test_a_mistyped_key_is_named_with_the_nearest_valid_one(key: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        broker(**{key: "1"})
    assert str(caught.value) == (f"broker.conf: unknown key {key!r}; did you mean {nearest!r}?")


def test_a_key_like_no_other_is_named_alone() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'zzqq'$"):
        broker(zzqq="1")


def test_keys_that_only_apache_uses_are_accepted_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker(sendMessageThreadPoolNums="4", haListenPort="10912", brokerName="b")
    assert [record.getMessage() for record in caplog.records] == [
        "broker.conf: lanemq does not use haListenPort, sendMessageThreadPoolNums"
    ]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("listenPort", "many", "listenPort: must be a number, not 'many'"),
        ("listenPort", "70000", "listenPort is 70000"),
        ("listenPort", "2", "listenPort is 2"),
        ("autoCreateTopicEnable", "yes", "must be true or false, not 'yes'"),
        ("flushDiskType", "SYNC", "must be ASYNC_FLUSH or SYNC_FLUSH, not 'SYNC'"),
        ("brokerRole", "SLAVE", "lanemq does not replicate"),
        ("brokerId", "1", "lanemq does not replicate"),
        ("brokerName", "a.b", "brokerName is 'a.b'"),
        ("messageDelayLevel", "1s 5x", "'5x'"),
        ("deleteWhen", "25", "deleteWhen"),
        ("deleteWhen", "1" * 5000, "deleteWhen"),
        ("messageDelayLevel", "1" * 5000 + "s", "messageDelayLevel"),
        (
            "mappedFileSizeCommitLog",
            "0",
            "mappedFileSizeCommitLog is 0: it must be 65536 to 2147483647",
        ),
        ("mappedFileSizeCommitLog", "65535", "it must be 65536 to 2147483647"),
        ("maxIndexNum", "1", "maxIndexNum is 1: it must be 2 to 2147483647"),
        ("defaultTopicQueueNums", "0", "defaultTopicQueueNums is 0: it must be 1 to 2048"),
        ("messageDelayLevel", "", "messageDelayLevel is '': it has no delay"),
        ("namesrvAddr", "garbage", "namesrvAddr: 'garbage' is not an address: write host:port"),
        ("namesrvAddr", "a:9876;b", "namesrvAddr: 'b' is not an address"),
        ("namesrvAddr", "a:9876,b:9876", "namesrvAddr: 'a:9876,b:9876' is not an address"),
        ("namesrvAddr", "http://a:80", "namesrvAddr: 'http://a:80' is not an address"),
        ("namesrvAddr", "a:65536", "namesrvAddr: 'a:65536' is not an address"),
        ("namesrvAddr", "a b:9876", "namesrvAddr: 'a b:9876' is not an address"),
        ("registerNameServerPeriod", "5", "registerNameServerPeriod"),
        ("storeType", "rocksdb", "must be default or defaultRocksDB, not 'rocksdb'"),
        ("configManagerVersion", "v2", "it has no v2"),
    ],
)
def test_a_bad_value_is_named(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        broker(**{key: value})
    assert message in str(caught.value)
    assert str(caught.value).startswith("broker.conf")


@pytest.mark.parametrize("text", ["", ";", " ; "])
def test_a_broker_without_a_name_server_registers_nowhere(text: str) -> None:
    assert broker(namesrvAddr=text).name_servers == ()


NUMBERS = [
    (kind, key)
    for kind in (BrokerConfig, NameServerConfig)
    for key, text in kind().to_properties().items()
    if text.isdecimal() and key != "deleteWhen"  # hours, as a text
]


@pytest.mark.parametrize(("kind", "key"), NUMBERS)
@pytest.mark.parametrize(
    "text", ["1" + "0" * 400, "9" * 5000, "-" + "9" * 400, "1e5", "1.5", "nan", "1_0", "", "-99"]
)
def test_no_number_is_taken_that_a_server_could_not_start_or_run_with(
    kind: type[Settings], key: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=key):
        kind.from_properties({key: text})
    running = kind()
    before = running.to_properties()
    with pytest.raises(ConfigError, match=key):
        running.update({key: text})
    assert running.to_properties() == before


@pytest.mark.parametrize(("kind", "key"), [pair for pair in NUMBERS if pair[1] != "brokerId"])
def test_a_server_can_be_configured_with_the_largest_number_that_is_taken(
    kind: type[BrokerConfig | NameServerConfig], key: str
) -> None:
    largest = "9" * 18
    if key not in ("startAcceptSendRequestTimeStamp", "logicalQueueExpiredKeepMillis"):
        with pytest.raises(ConfigError) as caught:
            kind.from_properties({key: largest})
        largest = re.findall("[0-9]+", str(caught.value))[-1]
    config = kind.from_properties({key: largest})
    assert config.to_properties()[key] == largest
    assert config.limits().idle_s < 1e10
    if isinstance(config, BrokerConfig):
        config.store_config()


@pytest.mark.parametrize("text", ["defaultRocksDB", "defaultRocksdb", "DEFAULTROCKSDB"])
def test_the_store_type_is_compared_without_case(text: str) -> None:
    assert broker(storeType=text).store_config().stage is Stage.ROCKSDB


@pytest.mark.parametrize("key", ["rocksdbCQDoubleWriteEnable", "rocksdbCQWriteEnable"])
def test_the_switch_of_double_writing_has_two_names(key: str) -> None:
    config = broker(**{key: "true"})
    assert config.store_config().stage is Stage.BOTH
    assert config.to_properties()["rocksdbCQDoubleWriteEnable"] == "true"
    assert "rocksdbCQWriteEnable" not in config.to_properties()
    assert broker(rocksdbCQWriteEnable="true", rocksdbCQDoubleWriteEnable="true") == config


def test_two_names_of_a_switch_may_not_have_two_values() -> None:
    with pytest.raises(ConfigError, match="two names of one switch"):
        broker(rocksdbCQWriteEnable="true", rocksdbCQDoubleWriteEnable="false")


def test_the_switches_of_the_upgrade_reach_the_store() -> None:
    plain = broker().store_config()
    assert plain.stage is Stage.FILES
    assert plain.transfer_metadata
    assert plain.transfer_offsets
    assert plain.export_json_on_close
    assert plain.persist_metadata_at_once
    assert not plain.allow_stale_json
    config = broker(
        storeType="defaultRocksDB",
        rocksdbCQDoubleWriteEnable="true",  # without meaning here
        transferMetadataJsonToRocksdb="false",
        transferOffsetJsonToRocksdb="false",
        realTimePersistRocksDBConfig="false",
        exportJsonOnShutdown="false",
        allowStaleJsonMetadata="true",
        configManagerVersion="v1",
        rocksdbCQBackfillEnable="false",
        rocksdbCQBackfillRate="7",
        rocksdbCQAllowUncovered="true",
    ).store_config()
    assert config.stage is Stage.ROCKSDB
    assert not config.transfer_metadata
    assert not config.transfer_offsets
    assert not config.persist_metadata_at_once
    assert not config.export_json_on_close
    assert config.allow_stale_json
    assert config.config_manager_version == "v1"
    assert (config.rocksdb_backfill, config.rocksdb_backfill_rate) == (False, 7)
    assert config.allow_uncovered


def test_every_key_can_be_written_and_read_back() -> None:
    config = broker(brokerName="b", brokerIP1="10.0.0.1", storePathCommitLog="/x")
    text = config.to_text()
    again = BrokerConfig.from_properties(parse_properties(text, source="text"))
    assert again == config
    for name in ("brokerName", "brokerId", "brokerClusterName", "brokerRole", "flushDiskType"):
        assert f"{name}=" in text.decode()


def test_every_key_of_ours_is_one_of_apaches() -> None:
    others = BrokerConfig.other_apache_keys()
    added = {"bindAddress", "listenPort"}  # of the network settings, which 4.9 keeps apart
    added |= {"transferMetadataJsonToRocksdb", "transferOffsetJsonToRocksdb"}  # of 5.3.1 alone
    lanemqs = {
        "allowMissingQueueFiles",
        "allowStaleJsonMetadata",
        "exportJsonOnShutdown",
        "kvEnable",
        "kvEngine",
        "kvHistoryRevisions",
        "kvHistorySeconds",
        "kvMemoryMaxBytes",
        "logicalQueueBrokers",
        "logicalQueueExpiredKeepMillis",
        "logicalQueuePhysicalTopics",
        "logicalQueueReconcileInterval",
        "logicalQueueReuseReadable",
        "logicalQueueSealTimeout",
        "peerMemoryMax",
        "rocksdbCQAllowUncovered",
        "rocksdbCQBackfillEnable",
        "rocksdbCQBackfillRate",
    }
    system = {"tls.server.mode", "tls.server.need.client.auth"}
    assert set(BrokerConfig().to_properties()) <= others | added | lanemqs | system


def test_settings_change_at_run_time_all_or_none() -> None:
    config = broker(brokerName="b")
    config.update({"autoCreateTopicEnable": "false", "brokerName": "b"})
    assert config.auto_create_topic_enable is False
    with pytest.raises(ConfigError, match=r"brokerName: can only be changed with a restart"):
        config.update({"autoCreateTopicEnable": "true", "brokerName": "c"})
    with pytest.raises(ConfigError, match=r"must be a number"):
        config.update({"autoCreateTopicEnable": "true", "brokerPermission": "rw"})
    assert config.auto_create_topic_enable is False
    assert config.broker_name == "b"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.conf: No such file"):
        NameServerConfig.load(tmp_path / "none.conf")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"brokerName=\xff\xfe")
    with pytest.raises(ConfigError, match=r"broker\.conf: .*UTF-8"):
        BrokerConfig.load(path)


def test_a_name_without_an_address_is_named() -> None:
    config = broker(brokerIP1="no.such.host.invalid")
    with pytest.raises(ConfigError, match=r"'no\.such\.host\.invalid' has no IPv4 address"):
        assert config.advertised_host


def test_what_clients_are_told_follows_what_is_listened_on() -> None:
    assert broker(bindAddress="127.0.0.1").advertised_host == "127.0.0.1"
    assert broker(bindAddress="localhost").advertised_host == "127.0.0.1"
    assert broker(bindAddress="::1").advertised_host == "::1"
    everywhere = broker(bindAddress="0.0.0.0")
    assert everywhere.listens_everywhere
    assert everywhere.advertised_host != "0.0.0.0"


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=5))
def test_any_properties_are_read_or_refused_with_one_type_of_error(
    properties: dict[str, str],
) -> None:
    for of in (BrokerConfig, NameServerConfig):
        try:
            config = of.from_properties(properties)
        except ConfigError:
            continue
        assert config.to_properties()


def test_an_empty_path_is_none_where_there_need_not_be_one() -> None:
    assert BrokerConfig.from_properties({"storePathCommitLog": ""}).store_path_commit_log is None
    with pytest.raises(ConfigError, match="storePathRootDir: is empty"):
        BrokerConfig.from_properties({"storePathRootDir": ""})
