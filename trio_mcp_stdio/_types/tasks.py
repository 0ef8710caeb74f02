"""Tasks of revision 2025-11-25: requests whose result is fetched later."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import attrs

from .._wire.convert import UNSET, JsonObject, UnsetType, WireModel

__all__ = [
    "CancelTaskResult",
    "CreateTaskResult",
    "GetTaskPayloadResult",
    "GetTaskResult",
    "ListTasksResult",
    "RelatedTaskMetadata",
    "Task",
    "TaskMetadata",
    "TaskStatus",
    "TaskStatusNotificationParams",
]

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""Where a task stands; the last three are final (2025-11-25 basic/utilities/tasks)."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskMetadata(WireModel):
    """Asks for a request to be run as a task (2025-11-25 basic/utilities/tasks)."""

    ttl: int | UnsetType = UNSET
    """Milliseconds to keep the task, from its creation."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class RelatedTaskMetadata(WireModel):
    """Ties a message to a task (2025-11-25 basic/utilities/tasks).

    It stands in the message's `_meta`, under `io.modelcontextprotocol/related-task`.
    """

    task_id: str
    """Id of the task."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Task(WireModel):
    """State of a task (2025-11-25 basic/utilities/tasks)."""

    task_id: str
    """Id of the task."""
    status: TaskStatus
    """Where it stands."""
    created_at: str
    """Time of its creation, ISO 8601."""
    last_updated_at: str
    """Time of its last change, ISO 8601."""
    ttl: int | None
    """Milliseconds for which it is kept, from its creation; None means for ever."""
    poll_interval: int | UnsetType = UNSET
    """Milliseconds to wait between two looks at it."""
    status_message: str | UnsetType = UNSET
    """More on the status, for people."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


GetTaskResult: TypeAlias = Task
"""Answer to `tasks/get` (2025-11-25 basic/utilities/tasks)."""

CancelTaskResult: TypeAlias = Task
"""Answer to `tasks/cancel` (2025-11-25 basic/utilities/tasks)."""

TaskStatusNotificationParams: TypeAlias = Task
"""Parameters of `notifications/tasks/status` (2025-11-25 basic/utilities/tasks)."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CreateTaskResult(WireModel):
    """Answer to a request that is now run as a task (2025-11-25 basic/utilities/tasks)."""

    task: Task
    """The new task."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class GetTaskPayloadResult(WireModel):
    """Answer to `tasks/result` (2025-11-25 basic/utilities/tasks).

    Its members are those of the result that the request would have had; they are found in `extra`.
    """

    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ListTasksResult(WireModel):
    """One page of `tasks/list` (2025-11-25 basic/utilities/tasks)."""

    tasks: tuple[Task, ...]
    """Tasks of this page."""
    next_cursor: str | UnsetType = UNSET
    """Cursor of the next page, UNSET on the last one; an empty string is a cursor."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
