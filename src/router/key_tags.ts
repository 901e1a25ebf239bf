import type { Principal } from "../core/tool.ts";

const NONE: readonly string[] = [];

/** The tags of a key, by which rules of public models tell requests apart; none as long as keys have none. */
export function tagsOf(
  principal: Principal & { readonly tags?: readonly string[] },
): readonly string[] {
  return principal.tags ?? NONE;
}
