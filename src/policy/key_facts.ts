import { type Static, Type } from "@sinclair/typebox";
import { createCheck } from "../config/check_value.ts";
import { KeyPolicy } from "./key_policy.ts";

/** Longest time for which a token holds after its rotation, in seconds: 30 days. */
const MAX_GRACE_SECONDS = 30 * 24 * 3600;
/** The end of the year 9999, the last that RFC 3339 can say. */
const MAX_TIME_MS = Date.UTC(10_000, 0) - 1;

const Nullable = <T extends ReturnType<typeof Type.String | typeof Type.Integer>>(schema: T) =>
  Type.Union([schema, Type.Null()]);

/** What a key is called. */
export const KeyName = Type.String({ minLength: 1, maxLength: 100, pattern: "\\S" });
/** Whose keys it belongs to; null for none. */
export const KeyOwner = Nullable(Type.String({ minLength: 1, maxLength: 200 }));
/** What its requests are marked with. */
export const KeyTags = Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
  maxItems: 50,
  uniqueItems: true,
});
/** How long the token from before holds. */
export const GraceSeconds = Type.Integer({
  minimum: 0,
  maximum: MAX_GRACE_SECONDS,
  description: "How long the old token holds; default 86400",
});

const KeyFacts = Type.Partial(Type.Object({
  name: KeyName,
  owner: KeyOwner,
  tags: KeyTags,
  expiresAt: Nullable(Type.Integer({ minimum: 0, maximum: MAX_TIME_MS })),
  policy: KeyPolicy,
  graceSeconds: GraceSeconds,
}));
const check = createCheck(KeyFacts, "given");

/** Throws `invalid_request` for what no key may have, whichever way it was said. */
export function assertKeyFacts(facts: { [Name in keyof Static<typeof KeyFacts>]?: unknown }): void {
  check(facts);
}
