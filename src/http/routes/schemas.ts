import { Type } from "@sinclair/typebox";
import { Budget } from "../../config/agent_schema.ts";
import {
  MAX_CLIENT_ID_LENGTH,
  MAX_FILE_NAME_LENGTH,
  MAX_MEDIA_TYPE_LENGTH,
  MAX_MESSAGE_PARTS,
  MAX_METADATA_KEY_LENGTH,
  MAX_MODEL_ASKED,
  MAX_TITLE_LENGTH,
} from "../../core/limits.ts";
import { ClientId } from "../../run/assert_given.ts";
import { AnswerFormatFields } from "../answer_format.ts";
import { HandedField } from "../handed.ts";
import { PreflightWish } from "../run_limits.ts";

const Metadata = Type.Record(Type.String({ maxLength: MAX_METADATA_KEY_LENGTH }), Type.Unknown(), {
  description: "Anything the application wants to keep",
});

/** Parameters of routes under one session or one run. */
export const SessionParams = Type.Object({ id: Type.String({ maxLength: 300 }) });
export const RunParams = Type.Object({ id: Type.String({ maxLength: 100 }) });

/** Body of `POST /v1/sessions`. */
export const NewSessionBody = Type.Object({
  title: Type.Optional(Type.String({ maxLength: MAX_TITLE_LENGTH })),
  agent: Type.Optional(Type.String({ maxLength: 64, description: "Default: default" })),
  externalId: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_CLIENT_ID_LENGTH,
      description: "The application's own id",
    }),
  ),
  metadata: Type.Optional(Metadata),
}, { additionalProperties: false });

/** Body of `PATCH /v1/sessions/:id`: what is left out stays. */
export const SessionChange = Type.Object({
  title: Type.Optional(Type.Union([Type.String({ maxLength: MAX_TITLE_LENGTH }), Type.Null()])),
  agent: Type.Optional(Type.String({ maxLength: 64 })),
  metadata: Type.Optional(Metadata),
}, { additionalProperties: false, minProperties: 1 });

const MessagePart = Type.Union([
  Type.Object({ type: Type.Literal("text"), text: Type.String({ minLength: 1 }) }),
  Type.Object({
    type: Type.Literal("file"),
    mediaType: Type.String({ minLength: 1, maxLength: MAX_MEDIA_TYPE_LENGTH }),
    url: Type.String({ pattern: "^(https?:|data:)", description: "http(s) or data URL" }),
    filename: Type.Optional(Type.String({ maxLength: MAX_FILE_NAME_LENGTH })),
  }),
]);

/** Body of `POST /v1/sessions/:id/messages`. */
export const NewMessageBody = Type.Object({
  id: Type.Optional(
    Type.String({
      ...ClientId,
      description: "The client's id: posting it again gives the same run",
    }),
  ),
  text: Type.Optional(Type.String({ minLength: 1 })),
  parts: Type.Optional(Type.Array(MessagePart, { minItems: 1, maxItems: MAX_MESSAGE_PARTS })),
  agent: Type.Optional(Type.String({ maxLength: 64, description: "Default: the session's" })),
  model: Type.Optional(Type.String({
    minLength: 1,
    maxLength: MAX_MODEL_ASKED,
    description: "Instead of the agent's, for this run; one that the key may call itself",
  })),
  budget: Type.Optional(Budget),
  ...AnswerFormatFields,
  preflight: Type.Optional(PreflightWish),
  stream: Type.Optional(
    Type.Boolean({ description: "false: the final message as JSON. Default: true" }),
  ),
  ...HandedField,
}, { additionalProperties: false });

/** Query of lists: a page's size and where it begins. */
export const PageQuery = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200 })),
  after: Type.Optional(
    Type.String({ maxLength: 300, description: "nextCursor of the page before" }),
  ),
};

/** A moment, RFC 3339. */
export const Time = Type.String({ format: "date-time", description: "RFC 3339" });

/** Usage of a run or session. */
export const UsageBody = Type.Object({
  promptTokens: Type.Integer(),
  completionTokens: Type.Integer(),
  totalTokens: Type.Optional(Type.Integer()),
  cachedTokens: Type.Optional(Type.Integer()),
  reasoningTokens: Type.Optional(Type.Integer()),
});

const ActiveRun = Type.Union([
  Type.Object({ runId: Type.String(), messageId: Type.String(), seq: Type.Integer() }),
  Type.Null(),
]);

/** A session as the API shows it. */
export const SessionBody = Type.Object({
  id: Type.String(),
  externalId: Type.Union([Type.String(), Type.Null()]),
  title: Type.Union([Type.String(), Type.Null()]),
  agent: Type.String(),
  metadata: Metadata,
  status: Type.Union([Type.Literal("idle"), Type.Literal("running")]),
  activeRun: ActiveRun,
  messageCount: Type.Integer(),
  usage: UsageBody,
  costMicros: Type.Union([Type.Integer(), Type.Null()]),
  createdAt: Time,
  updatedAt: Time,
});

/** A message with its parts. */
export const MessageBody = Type.Object({
  id: Type.String(),
  role: Type.String(),
  parts: Type.Array(Type.Unknown()),
  metadata: Type.Optional(Metadata),
});
