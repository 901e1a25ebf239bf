import { Type } from "@sinclair/typebox";
import { Budget } from "../config/agent_schema.ts";
import { createCheck } from "../config/check_value.ts";
import { HubError } from "../core/error.ts";
import {
  MAX_CLIENT_ID_LENGTH,
  MAX_FILE_NAME_LENGTH,
  MAX_MEDIA_TYPE_LENGTH,
  MAX_MESSAGE_PARTS,
  MAX_MESSAGE_TEXT,
  MAX_REASON_LENGTH,
  MAX_REMEMBER_SECONDS,
  MAX_STEERING_LENGTH,
} from "../core/limits.ts";
import type { RunBudget } from "../core/run_budget.ts";
import type { UIPart } from "../core/ui_message.ts";

/** The client's own id of a message or a text, as it is written in bodies. */
export const ClientId = Type.String({ minLength: 1, maxLength: MAX_CLIENT_ID_LENGTH });
/** A text for a run that goes on. */
export const SteeringText = Type.String({ minLength: 1, maxLength: MAX_STEERING_LENGTH });
/** Why a call or a plan is denied. */
export const Reason = Type.String({ maxLength: MAX_REASON_LENGTH });
/** How long an approval is remembered. */
export const RememberSeconds = Type.Integer({ minimum: 1, maximum: MAX_REMEMBER_SECONDS });

const checkMessage = createCheck(
  Type.Object({
    id: Type.Optional(ClientId),
    budget: Type.Optional(Budget),
    parts: Type.Array(
      Type.Object({
        mediaType: Type.Optional(Type.String({ minLength: 1, maxLength: MAX_MEDIA_TYPE_LENGTH })),
        filename: Type.Optional(Type.String({ maxLength: MAX_FILE_NAME_LENGTH })),
      }),
      { maxItems: MAX_MESSAGE_PARTS },
    ),
  }),
  "given",
);
const checkSteering = createCheck(
  Type.Object({ id: Type.Optional(ClientId), text: SteeringText }),
  "given",
);
const checkAnswer = createCheck(
  Type.Object({
    reason: Type.Optional(Reason),
    rememberSeconds: Type.Optional(RememberSeconds),
  }),
  "given",
);

/** Throws `invalid_request` for a message or a budget that no run may begin with, whichever way it was said. */
export function assertRunGiven(
  { message, budget }: {
    message: { clientId: string | null; parts: readonly UIPart[] } | null;
    budget?: RunBudget | undefined;
  },
): void {
  const { clientId, parts = [] } = message ?? { clientId: null };
  checkMessage(said({ id: clientId, budget, parts }));
  assertTextFits(parts);
}

/**
 * Throws `invalid_request` for a message with more text than any run takes: it is stored, measured, compared and sent
 * again at each step. Files are bounded by the request's body.
 */
export function assertTextFits(parts: readonly UIPart[]): void {
  let length = 0;
  for (const part of parts) if (part.type === "text") length += part.text.length;
  if (length <= MAX_MESSAGE_TEXT) return;
  throw new HubError(
    "invalid_request",
    `The message has ${length} characters of text, wanted at most ${MAX_MESSAGE_TEXT}`,
  );
}

/** Throws `invalid_request` for a text that no run may be told. */
export function assertSteeringGiven(
  { clientId, text }: { clientId: string | null; text: string },
): void {
  checkSteering(said({ id: clientId, text }));
}

/** Throws `invalid_request` for an answer that no approval may get. */
export function assertAnswerGiven(
  { reason, rememberSeconds }: { reason: string | null; rememberSeconds: number | null },
): void {
  checkAnswer(said({ reason, rememberSeconds }));
}

/** The members that say something. */
function said(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => (value ?? null) !== null),
  );
}
