"""The Model Context Protocol over stdio, for trio."""

from __future__ import annotations

from ._client.client import Client as Client
from ._client.client import open_client as open_client
from ._client.client import run_client as run_client
from ._client.options import DEFAULT as DEFAULT
from ._client.options import ClientOptions as ClientOptions
from ._client.options import RequestOptions as RequestOptions
from ._client.statistics import ClientStatistics as ClientStatistics
from ._client.supervisor import ClientState as ClientState
from ._client.supervisor import ServerDescription as ServerDescription
from ._connection.transports import Secret as Secret
from ._connection.transports import StdioServer as StdioServer
from ._connection.transports import StreamTransport as StreamTransport
from ._errors import ClientClosed as ClientClosed
from ._errors import ConnectionLost as ConnectionLost
from ._errors import Delivery as Delivery
from ._errors import InputRequiredError as InputRequiredError
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
from ._errors import ToolError as ToolError
from ._errors import UnsupportedProtocolVersion as UnsupportedProtocolVersion
from ._io.process import ShutdownTimeouts as ShutdownTimeouts
from ._io.stderr import StderrFile as StderrFile
from ._version import __version__ as __version__
from ._wire.convert import UNSET as UNSET
from ._wire.convert import UnsetType as UnsetType
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
    "Era",
    "InputRequiredError",
    "InvalidParams",
    "InvalidResult",
    "LineTooLong",
    "LocalProtocolError",
    "McpError",
    "MethodNotFound",
    "MissingClientCapability",
    "NegotiationError",
    "Notification",
    "ProcessExit",
    "ProgressUpdate",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestOptions",
    "RequestTimeout",
    "ResourceNotFound",
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
    "ToolError",
    "UnsetType",
    "UnsupportedProtocolVersion",
    "__version__",
    "open_client",
    "run_client",
]
