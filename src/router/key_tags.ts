import type { Principal } from "../core/tool.ts";

const NONE: readonly string[] = [];

/** The tags of a key, by which rules of public models tell requests apart. */
export function tagsOf({ tags }: Principal): readonly string[] {
  return tags ?? NONE;
}
