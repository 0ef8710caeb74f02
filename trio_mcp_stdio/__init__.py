"""The Model Context Protocol over stdio, for trio."""

from __future__ import annotations

from ._client.client import Client as Client
from ._client.inputs import InputContext as InputContext
from ._client.inputs import InputHandlers as InputHandlers
from ._client.opening import open_client as open_client
from ._client.opening import run_client as run_client
from ._client.options import DEFAULT as DEFAULT
from ._client.options import ClientOptions as ClientOptions
from ._client.options import RequestOptions as RequestOptions
from ._client.pages import Pages as Pages
from ._client.statistics import ClientStatistics as ClientStatistics
from ._client.supervisor import ClientState as ClientState
from ._client.supervisor import ServerDescription as ServerDescription
from ._client.validation import Validation as Validation
from ._connection.logs import LogMessage as LogMessage
from ._connection.subscription import PromptsListChanged as PromptsListChanged
from ._connection.subscription import ResourcesListChanged as ResourcesListChanged
from ._connection.subscription import ResourceUpdated as ResourceUpdated
from ._connection.subscription import Subscription as Subscription
from ._connection.subscription import SubscriptionEnd as SubscriptionEnd
from ._connection.subscription import SubscriptionEvent as SubscriptionEvent
from ._connection.subscription import ToolsListChanged as ToolsListChanged
from ._connection.transports import Secret as Secret
from ._connection.transports import StdioServer as StdioServer
from ._connection.transports import StreamTransport as StreamTransport
from ._errors import ClientClosed as ClientClosed
from ._errors import ConnectionLost as ConnectionLost
from ._errors import Delivery as Delivery
from ._errors import EndlessList as EndlessList
from ._errors import InputRequiredError as InputRequiredError
from ._errors import InvalidArguments as InvalidArguments
from ._errors import InvalidParams as InvalidParams
from ._errors import InvalidResult as InvalidResult
from ._errors import LineTooLong as LineTooLong
from ._errors import LocalProtocolError as LocalProtocolError
from ._errors import McpError as McpError
from ._errors import MethodNotFound as MethodNotFound
from ._errors import MissingClientCapability as MissingClientCapability
from ._errors import NegotiationError as NegotiationError
from ._errors import ProtocolError as ProtocolError
from ._errors import RemoteProtocolError as RemoteProtocolError
from ._errors import RequestTimeout as RequestTimeout
from ._errors import ResourceNotFound as ResourceNotFound
from ._errors import RpcError as RpcError
from ._errors import ServerExited as ServerExited
from ._errors import SpawnError as SpawnError
from ._errors import StartupTimeout as StartupTimeout
from ._errors import SubscriptionLost as SubscriptionLost
from ._errors import ToolError as ToolError
from ._errors import UnsupportedProtocolVersion as UnsupportedProtocolVersion
from ._io.process import ShutdownTimeouts as ShutdownTimeouts
from ._io.stderr import StderrFile as StderrFile
from ._version import __version__ as __version__
from ._wire.convert import UNSET as UNSET
from ._wire.convert import UnsetType as UnsetType
from ._wire.forms import UrlDescription as UrlDescription
from ._wire.forms import describe_url as describe_url
from ._wire.methods import Era as Era
from .types import Notification as Notification
from .types import ProcessExit as ProcessExit
from .types import ProgressUpdate as ProgressUpdate

__all__ = [
    "DEFAULT",
    "UNSET",
    "Client",
    "ClientClosed",
    "ClientOptions",
    "ClientState",
    "ClientStatistics",
    "ConnectionLost",
    "Delivery",
    "EndlessList",
    "Era",
    "InputContext",
    "InputHandlers",
    "InputRequiredError",
    "InvalidArguments",
    "InvalidParams",
    "InvalidResult",
    "LineTooLong",
    "LocalProtocolError",
    "LogMessage",
    "McpError",
    "MethodNotFound",
    "MissingClientCapability",
    "NegotiationError",
    "Notification",
    "Pages",
    "ProcessExit",
    "ProgressUpdate",
    "PromptsListChanged",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestOptions",
    "RequestTimeout",
    "ResourceNotFound",
    "ResourceUpdated",
    "ResourcesListChanged",
    "RpcError",
    "Secret",
    "ServerDescription",
    "ServerExited",
    "ShutdownTimeouts",
    "SpawnError",
    "StartupTimeout",
    "StderrFile",
    "StdioServer",
    "StreamTransport",
    "Subscription",
    "SubscriptionEnd",
    "SubscriptionEvent",
    "SubscriptionLost",
    "ToolError",
    "ToolsListChanged",
    "UnsetType",
    "UnsupportedProtocolVersion",
    "UrlDescription",
    "Validation",
    "__version__",
    "describe_url",
    "open_client",
    "run_client",
]
