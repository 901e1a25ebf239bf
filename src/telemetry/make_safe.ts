import { visibleText } from "../core/visible_text.ts";

/**
 * Text of others for one line of a terminal: what could fake a line, steer the terminal or hide something is written as
 * an escape; `keeps` lists what stays.
 */
export function makeSafe(text: string, { keeps = "" }: { keeps?: string } = {}): string {
  return visibleText(text, { keeps });
}
