import type { ToolPreview } from "../core/tool.ts";

/** What a call is about to do, as lines for a terminal. */
export function showPreview(preview: ToolPreview): string[] {
  switch (preview.kind) {
    case "diff":
      return [...preview.diff.split("\n"), ...cut(preview.isCut)];
    case "command":
      return [
        `in ${preview.cwd}: ${preview.argv.map((word) => JSON.stringify(word)).join(" ")}`,
        ...cut(preview.isCut),
      ];
    case "text":
      return preview.text.split("\n");
  }
}

function cut(isCut: boolean | undefined): string[] {
  return isCut === true ? ["(cut: the arguments have the rest)"] : [];
}
