"""The time zone of this machine, as `datetime` takes one: what people are shown, never stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo


class LocalTime(tzinfo):
    """Local time, with the offset that holds at each instant: a fixed one is wrong over DST."""

    def fromutc(self, dt: datetime) -> datetime:
        """Return the instant in local time."""
        return dt.replace(tzinfo=UTC).astimezone()

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Return the offset of a local time."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, dt: datetime | None) -> timedelta | None:
        """Return nothing: the offset says all."""
        del dt
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Return no name: the offset says all."""
        del dt
        return None
