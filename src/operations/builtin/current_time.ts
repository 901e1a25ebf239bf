import { HubError } from "../../core/error.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";

const Time = Type.Object({
  iso: Type.String({ description: "Local time with its offset from UTC" }),
  utc: Type.String(),
  weekday: Type.String(),
  timeZone: Type.String(),
  unixSeconds: Type.Integer(),
});

/** `hub.current_time`: the wall clock in a time zone. Prompts carry no clock, since it would spoil prompt caches. */
export function createCurrentTime(): Operation {
  return defineOperation({
    namespace: "hub",
    name: "current_time",
    description: "Tells the current date and time with the weekday. " +
      "Use it whenever an answer depends on today's date; never guess the date.",
    input: Type.Object({
      timeZone: Type.Optional(
        Type.String({
          description:
            'IANA time zone such as "Europe/Vienna" or "America/New_York"; UTC when left out',
        }),
      ),
    }),
    output: Time,
    effect: "pure",
    polling: true,
    run({ timeZone = "UTC" }, { clock }) {
      const now = new Date(clock.now());
      return {
        iso: toLocalIso(now, timeZone),
        utc: now.toISOString(),
        weekday: formatter(timeZone, { weekday: "long" }).format(now),
        timeZone,
        unixSeconds: Math.floor(now.getTime() / 1000),
      };
    },
  });
}

function formatter(timeZone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat("en-US", { ...options, timeZone });
  } catch {
    throw new HubError(
      "invalid_request",
      `There is no time zone ${
        JSON.stringify(timeZone)
      }, wanted an IANA name such as Europe/Vienna`,
    );
  }
}

function toLocalIso(now: Date, timeZone: string): string {
  const parts = new Map<string, string>(
    formatter(timeZone, {
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
      timeZoneName: "longOffset",
    }).formatToParts(now).map(({ type, value }) => [type, value]),
  );
  const part = (name: string) => parts.get(name) ?? "";
  const offset = part("timeZoneName").replace("GMT", "") || "+00:00";
  const date = `${part("year")}-${part("month")}-${part("day")}`;
  return `${date}T${part("hour")}:${part("minute")}:${part("second")}${offset}`;
}
