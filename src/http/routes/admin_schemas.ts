import { Type } from "@sinclair/typebox";
import { MAX_PROVIDER_KEY_LENGTH } from "../../core/limits.ts";
import { GraceSeconds, KeyName, KeyOwner, KeyTags } from "../../policy/key_facts.ts";
import { KeyPolicy } from "../../policy/key_policy.ts";
import { Time } from "./schemas.ts";

const closed = { additionalProperties: false } as const;
const Nullable = <T extends ReturnType<typeof Type.String>>(schema: T) =>
  Type.Union([schema, Type.Null()]);

const Role = Type.Union([Type.Literal("user"), Type.Literal("admin")]);

/** Parameters of routes under one key. */
export const KeyParams = Type.Object({ id: Type.String({ maxLength: 100 }) });

/** Body of `POST /v1/admin/keys`. */
export const NewKeyBody = Type.Object({
  name: KeyName,
  role: Type.Optional(Role),
  owner: Type.Optional(KeyOwner),
  tags: Type.Optional(KeyTags),
  expiresAt: Type.Optional(Nullable(Time)),
  policy: Type.Optional(KeyPolicy),
}, closed);

/** Body of `PATCH /v1/admin/keys/:id`: what is left out stays, a policy is replaced as a whole. */
export const KeyChangeBody = Type.Object({
  name: Type.Optional(KeyName),
  owner: Type.Optional(KeyOwner),
  tags: Type.Optional(KeyTags),
  expiresAt: Type.Optional(Nullable(Time)),
  policy: Type.Optional(KeyPolicy),
}, { ...closed, minProperties: 1 });

/** Body of `POST /v1/admin/keys/:id/rotate`. */
export const RotateBody = Type.Object({
  graceSeconds: Type.Optional(GraceSeconds),
}, closed);

/** A key as the admin API shows it: nothing of its secret. */
export const KeyBody = Type.Object({
  id: Type.String(),
  name: Type.String(),
  role: Role,
  state: Type.Union([Type.Literal("valid"), Type.Literal("expired"), Type.Literal("revoked")]),
  owner: KeyOwner,
  tags: KeyTags,
  policy: KeyPolicy,
  createdAt: Time,
  expiresAt: Nullable(Time),
  revokedAt: Nullable(Time),
  formerTokenUntil: Nullable(Time),
}, closed);

/** A key whose token was made just now. */
export const KeyWithTokenBody = Type.Object({
  key: KeyBody,
  token: Type.String({ description: "The key itself, shown only now" }),
}, closed);

/** What a key has spent in the windows that are open. */
export const SpendBody = Type.Object({
  id: Type.String({
    description: "A day, a month or `total`; `agent NAME` in front for one agent",
  }),
  spentMicros: Type.Integer(),
  reservedMicros: Type.Integer(),
}, closed);

/** Something that was done to a key. */
export const AuditBody = Type.Object({
  id: Type.String(),
  actor: Nullable(Type.String({ description: "Null for the command line" })),
  action: Type.String(),
  subject: Type.String(),
  details: Type.Record(Type.String(), Type.Unknown()),
  at: Time,
}, closed);

/**
 * Body of `POST /v1/admin/providers` and `PATCH /v1/admin/providers/:id`. It is checked as the configuration is, whose
 * refusals show nothing of a secret, wherever in the body that stands.
 */
export const ProviderSettings = Type.Object(
  Object.fromEntries(
    ["name", "kind", "baseUrl", "apiKey", "headers", "models", "timeouts", "maxConcurrent"].map(
      (name) => [name, Type.Optional(Type.Unknown())],
    ),
  ),
  { description: "As `providers.<name>` in docs/configuration.md, with its name" },
);

/** Body of `POST /v1/admin/providers/:id/rotate`. */
export const RotateProviderBody = Type.Object({
  apiKey: Type.String({
    minLength: 1,
    maxLength: MAX_PROVIDER_KEY_LENGTH,
    description: "The new key",
  }),
});

/** A provider as the admin API shows it: nothing of its secrets. */
export const ProviderBody = Type.Object({
  id: Nullable(Type.String({ description: "Null for one of the configuration" })),
  name: Type.String(),
  kind: Type.String(),
  source: Type.Union([Type.Literal("database"), Type.Literal("configuration")]),
  isUsed: Type.Boolean({ description: "Whether requests for its name go to it" }),
  baseUrl: Nullable(Type.String()),
  settings: Type.Record(Type.String(), Type.Unknown()),
  headers: Type.Array(Type.String(), { description: "Names of the headers that it gets" }),
  key: Type.Union([
    Type.Object({
      masterKeyId: Type.String({ description: "The master key that sealed it" }),
      formerHolds: Type.Boolean({ description: "Whether the key from before holds beside it" }),
      formerUntil: Nullable(Time),
    }, closed),
    Type.Null(),
  ]),
  problem: Nullable(Type.String({ description: "Why it cannot be used" })),
  createdAt: Nullable(Time),
  updatedAt: Nullable(Time),
}, closed);
