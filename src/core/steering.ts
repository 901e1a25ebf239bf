import { isJsonObject, type Json } from "./json.ts";

/** `steer`: read by the model at the next step. `queue`: read when the run would otherwise have finished. */
export type SteeringKind = "steer" | "queue";

/** A text that a user said to a run while it went on. */
export interface SteeringText {
  steeringId: string;
  kind: SteeringKind;
  text: string;
}

/** What became of it: the model reads it from here on, or the run ended without it. */
export type SteeringFate = "applied" | "undelivered";

/** The name of the `data` events and parts that such texts are in a log and in a message. */
const STEERING = "steering";

/** Any `data` event or part. */
interface NamedData {
  type: "data";
  name: string;
  data: Json;
  id?: string;
}

/** The event that says what became of a text. */
export function steeringEvent({ steeringId, kind, text }: SteeringText, state: SteeringFate) {
  return { type: "data" as const, name: STEERING, id: steeringId, data: { kind, text, state } };
}

/** True for `data` that stands for a text of a user. */
export function isSteering(data: { name: string }): boolean {
  return data.name === STEERING;
}

/** The text of such an event or part; null for other data, and for one that is not of this form. */
export function readSteering(
  part: { type: string } | NamedData,
): SteeringText & { state: SteeringFate } | null {
  if (!("name" in part) || !isSteering(part) || !isJsonObject(part.data)) return null;
  const { kind, text, state } = part.data;
  if (kind !== "steer" && kind !== "queue") return null;
  if (state !== "applied" && state !== "undelivered") return null;
  if (typeof text !== "string" || part.id === undefined) return null;
  return { steeringId: part.id, kind, text, state };
}
