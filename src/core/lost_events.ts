import { isJsonObject, type Json, type JsonObject } from "./json.ts";

/** Name of the `data` event that says that Postgres has lost events it had confirmed. */
const EVENTS_LOST = "events-lost";

/** Numbers of events that may have been shown and are no longer in the log: those behind `afterSeq`, up to `throughSeq`. */
export interface LostEvents {
  afterSeq: number;
  throughSeq: number;
}

/** The event that says so. Its own number is behind all numbers that were shown, so it may leave numbers out. */
export function lostEvent({ afterSeq, throughSeq }: LostEvents) {
  const data: JsonObject = { afterSeq, throughSeq };
  return { type: "data" as const, name: EVENTS_LOST, data };
}

/** True for the `data` of such an event. */
export function tellsLoss({ name }: { name?: string }): boolean {
  return name === EVENTS_LOST;
}

/** True for events before which numbers may be missing in the log. */
export function mayLeaveOut(event: { type: string; name?: string }): boolean {
  return event.type === "step-reset" || event.type === "data" && tellsLoss(event);
}

/** What such an event says; null for any other. */
export function readLostEvents(
  event: { type: string; name?: string; data?: Json },
): LostEvents | null {
  const { data } = event;
  if (event.type !== "data" || !tellsLoss(event) || !isJsonObject(data)) return null;
  return { afterSeq: Number(data["afterSeq"]), throughSeq: Number(data["throughSeq"]) };
}

/**
 * True when a reader whose last event has the number `cursor` has seen events that are no longer part of the log, as the
 * next event of the log says: what it has is void, and only a replay from `start` gives it the run as it is.
 */
export function isVoidCursor(
  next: { type: string; name?: string; data?: Json } | undefined,
  cursor: number,
): boolean {
  const lost = next === undefined ? null : readLostEvents(next);
  return lost !== null && cursor > lost.afterSeq && cursor <= lost.throughSeq;
}
