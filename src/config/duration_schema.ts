import { type TInteger, Type } from "@sinclair/typebox";

/** The longest delay that timers of the runtime keep, in milliseconds (2^31 - 1, about 24 days). */
export const MAX_TIMER_MS = 2_147_483_647;

/** What a duration may be, and what it is when nothing is said. */
export interface DurationOptions {
  description: string;
  minimum?: number;
  default?: number;
}

/** A whole number of milliseconds that a timer can wait. */
export function Duration(options: DurationOptions): TInteger {
  return Type.Integer({ minimum: 1, maximum: MAX_TIMER_MS, ...options });
}
