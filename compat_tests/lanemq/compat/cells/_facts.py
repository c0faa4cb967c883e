"""Peculiarities of clients that Apache's own servers show, so they are no server's fault.

Each is a function of the client's name, used by the scenarios that meet it; the control runs
prove them: were one wrong, the scenario would fail on Apache.
"""


def ignores_group_changes(client: str) -> bool:
    """Return whether the client ignores NOTIFY_CONSUMER_IDS_CHANGED and only has its timer."""
    return client.startswith("node-")


def insists_on_route(client: str) -> bool:
    """Return whether a consumer of a topic that does not exist yet refuses to start."""
    return client.startswith("go-")


def trusts_tag_hashes(client: str) -> bool:
    """Return whether a consumer takes what the broker's hash filter let through, unchecked."""
    return client == "go-2.1.0"


def shows_retry_topic(client: str) -> bool:
    """Return whether a listener sees a retried message under the retry topic's own name."""
    return client == "go-2.1.0"


def hides_places(client: str) -> bool:
    """Return whether the client tells no id of a message's place, and no queue after a send."""
    return client == "cpp"


def knows_texts_only(client: str) -> bool:
    """Return whether a body ends at its first zero byte, and messages have no flag, in the API."""
    return client == "cpp"


def breaks_suspended_order(client: str) -> str | None:
    """Return the reason why a suspended queue does not keep its order; None if it does."""
    if client.startswith("go-"):
        return (
            "the Go client goes on with the next message after SuspendCurrentQueueAMoment; "
            "on Apache 4.9.7 and 5.3.3 too"
        )
    return None


def is_unsteady(client: str) -> bool:
    """Return whether a cell of the client that failed is run again, in a new process.

    The C++ library of the wheel ends its process now and then, as it stops the threads of a
    consumer (``boost::thread_interrupted``, which nobody catches), and starts consumers that are
    given nothing: at Apache 4.9.7 and 5.3.3 too, in cells that pass in the next run.
    """
    return client == "cpp"


def asks_what_server_lacks(client: str, server: str) -> str | None:
    """Return the request of a lite pull consumer that the server does not know; None if it knows
    all."""
    if client == "java-5.3.3" and server == "apache-4.9.7":
        return (
            "the lite pull consumer of 5.3.3 sends LITE_PULL_MESSAGE (361), which Apache 4.9.7 "
            "answers with REQUEST_CODE_NOT_SUPPORTED"
        )
    return None


def searches_by_an_old_route(client: str, server: str) -> str | None:
    """Return the reason why a search by time depends on the moment; None if it does not."""
    if client == "java-5.0.0-PREVIEW" and moves_queues(server):
        return (
            "the client chooses the segment to search by the times in its own route, which is up"
            " to 30 s old, and no answer to a search redirects it: a queue that moves all the time"
            " ends elsewhere by then"
        )
    return None


def sends_unreadable_batches(client: str) -> str | None:
    """Return the reason why brokers cannot read the client's batches; None if they can."""
    if client.startswith("go-"):
        return "Apache 4.9.7 and 5.3.3 refuse the Go client's batch (empty number fields)"
    if client == "cpp":
        return "Apache 4.9.7 and 5.3.3 take the C++ client's batch for one message without a body"
    return None


def creates_no_topics(client: str) -> str | None:
    """Return the reason why a send to an unknown topic does not create it; None if it does."""
    if client.startswith("node-"):
        return (
            "ali-ons raises where the name server has no route and never asks for TBW102's; "
            "on Apache 4.9.7 and 5.3.3 too"
        )
    return None


def has_no_stages(client: str) -> str | None:
    """Return the reason why the client has no staged listener; None if it has one."""
    return None if client == "python" else "only lanemq's SDK has a staged listener"


def asks_all_brokers(client: str, server: str) -> str | None:
    """Return the reason why a query shows messages at their real places, and twice; None if not."""
    if client == "java-5.0.0-PREVIEW" and server == "lanemq-logical":
        return (
            "5.0.0-PREVIEW asks every broker in a route: the one that stands for the logical "
            "queues, and those that have their parts, which answer with their own queues"
        )
    return None


def is_refused_transactions(client: str, server: str) -> str | None:
    """Return the reason why the client's half messages are refused; None if they are not."""
    if server == "lanemq-logical" and client not in ("java-5.0.0-PREVIEW", "python"):
        return (
            "lanemq's logical listener refuses half messages: their ends and checks would name "
            "places of brokers that the client does not know"
        )
    return None


def moves_queues(server: str) -> bool:
    """Return whether the server's queues are moved between brokers all the time.

    Between the seal of a queue and its opening elsewhere nobody says where it ends, so that an
    offset behind the end finds nothing new, instead of being corrected.
    """
    return server == "lanemq-logical"
