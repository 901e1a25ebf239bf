import type { ToolApproval, ToolPreview, ToolRisk } from "./tool.ts";

/** What a question lets its answer be. */
export type ApprovalTier = Exclude<ToolApproval, "never">;

/** How far an approval reaches: this call, the session's later calls of the tool, or those of all sessions too. */
export type Remember = "once" | "session" | "always";

/** Every reach, for checks. */
export const REMEMBER: readonly Remember[] = ["once", "session", "always"];

/** What a question says beside its call. */
export interface ApprovalTerms {
  risk: ToolRisk;
  /** Left out by questions from before there were tiers. */
  tier?: ApprovalTier;
  /** Where the run has read what others wrote, when that is why a person is asked: a tool, a server, files. */
  tainted?: string[];
  /** What the call is about to do, where its tool can say so. */
  preview?: ToolPreview;
}

/** An answer to a question. */
export interface ApprovalResponse {
  approved: boolean;
  reason?: string;
  /** What else it holds for; left out when that is nothing. */
  remember?: Exclude<Remember, "once">;
}

/** The fields of an answer that are there. */
export function responseOf({ approved, reason, remember }: ApprovalResponse): ApprovalResponse {
  return {
    approved,
    ...(reason === undefined ? {} : { reason }),
    ...(remember === undefined ? {} : { remember }),
  };
}
