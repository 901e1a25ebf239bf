import { isDateTime } from "../core/date_time.ts";
import type { Json } from "../core/json.ts";

type FormatTest = (text: string) => boolean;

const LABEL = /^[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/i;
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;
const DURATION =
  /^P(?!$)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?!$)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)$/;

const FORMATS: Readonly<Record<string, FormatTest>> = {
  "date-time": isDateTime,
  "date": (text) => /^\d{4}-\d\d-\d\d$/.test(text) && isDateTime(`${text}T00:00:00Z`),
  "time": (text) => isDateTime(`2000-01-01T${text}`),
  "duration": (text) => text.length <= 100 && DURATION.test(text),
  "email": (text) => text.length <= 320 && /^[^\s@]+@[^\s@]+\.[^\s@.]+$/.test(text),
  "hostname": (text) => text.length <= 253 && text.split(".").every((label) => LABEL.test(label)),
  "ipv4": (text) =>
    /^\d{1,3}(?:\.\d{1,3}){3}$/.test(text) &&
    text.split(".").every((part) => Number(part) <= 255 && String(Number(part)) === part),
  "ipv6": (text) => /^[\da-f:.]{2,45}$/i.test(text) && URL.canParse(`http://[${text}]/`),
  "uri": URL.canParse,
  "uuid": (text) => UUID.test(text),
};

const NUMBER_FORMATS: Readonly<Record<string, (number: number) => boolean>> = {
  "int32": (number) => number === (number | 0),
  "int64": (number) => Number.isInteger(number) && Math.abs(number) < 2 ** 63,
  "float": Number.isFinite,
  "double": Number.isFinite,
};

/** The formats that are checked, each in time that grows with the text alone. */
export const CHECKED_FORMATS: readonly string[] = [
  ...Object.keys(FORMATS),
  ...Object.keys(NUMBER_FORMATS),
];

/** Whether a value has a format: those of strings say nothing about numbers, and one that is not checked nothing at all. */
export function hasFormat(value: Json, format: string): boolean {
  if (typeof value === "string" && Object.hasOwn(FORMATS, format)) {
    return FORMATS[format]?.(value) ?? true;
  }
  if (typeof value !== "number" || !Object.hasOwn(NUMBER_FORMATS, format)) return true;
  return NUMBER_FORMATS[format]?.(value) ?? true;
}
