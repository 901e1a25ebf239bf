import { secretForms } from "../../src/telemetry/redact.ts";

/** Secrets by what they are called in a failure. */
export type Canaries = Readonly<Record<string, string>>;

/** A text that no other holds, long enough for every rule that looks for secrets by value. */
export function canary(what: string): string {
  return `canary${what}${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}7`;
}

/** All ways in which a place may write a secret: plain, as JSON, a URL, base64, and the hex of Postgres. */
function formsOf(secret: string): string[] {
  const hex = new TextEncoder().encode(secret).toHex();
  return [...secretForms(secret), hex].filter((form) => form.length >= 8);
}

/** The names of the canaries that a text holds in any form. */
export function foundIn(text: string, canaries: Canaries): string[] {
  return Object.entries(canaries).filter(([, secret]) =>
    formsOf(secret).some((form) => text.includes(form))
  ).map(([name]) => name);
}

/** Throws when a text holds a canary, unless the place is its home; and when it lacks one that should be there. */
export function assertCanaries(
  place: string,
  text: string,
  canaries: Canaries,
  homes: readonly string[] = [],
): void {
  const found = foundIn(text, canaries);
  const strays = found.filter((name) => !homes.includes(name));
  if (strays.length > 0) {
    throw new Error(`${place} holds ${strays}: ${around(text, canaries, strays)}`);
  }
  const lost = homes.filter((name) => !found.includes(name));
  if (lost.length > 0) {
    throw new Error(`${place} does not hold ${lost}: the sweep sees nothing there`);
  }
}

function around(text: string, canaries: Canaries, names: readonly string[]): string {
  return names.flatMap((name) => formsOf(canaries[name] ?? "")).flatMap((form) => {
    const at = text.indexOf(form);
    return at < 0 ? [] : [text.slice(Math.max(0, at - 200), at + form.length + 40)];
  }).slice(0, 3).join("\n…\n");
}
