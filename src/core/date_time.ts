const FORM = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
/** Years 1 to 9999 in UTC: what RFC 3339 can write and Postgres can read. */
const FIRST_MS = Date.parse("0001-01-01T00:00:00Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

/** True for an instant as RFC 3339 writes it (`T` and `Z` in upper case), on a day that exists; no leap seconds. */
export function isDateTime(text: string): boolean {
  const day = FORM.exec(text)?.[1];
  if (day === undefined) return false;
  const ms = Date.parse(text);
  // JavaScript takes February 30th for March 2nd.
  const exists = new Date(`${day}T00:00:00Z`).getUTCDate() === Number(day.slice(8));
  return exists && ms >= FIRST_MS && ms <= LAST_MS;
}
