import type { Bubblewrap } from "./sandbox.ts";

/** How far operations are to reach, and what is to hold them. */
export interface ReachWishes {
  securityMode: "limited-control" | "full-control";
  sandbox: "auto" | "required" | "off";
}

/** What holds operations on this system. */
export interface Reach {
  /** In words for whoever runs the hub. */
  words: string;
  /** Whether that is less than what the settings may be taken to promise. */
  isWeak: boolean;
  /** Whether operations on files are offered. */
  hasFiles: boolean;
}

/** Whether this system tells what was opened. */
export function isCheckedHere(): boolean {
  return Deno.build.os === "linux";
}

/** What holds operations where bubblewrap works or not, and what was opened can be told or not. */
export function describeReach(
  { securityMode, sandbox }: ReachWishes,
  { bubblewrap, isChecked }: { bubblewrap: Bubblewrap; isChecked: boolean },
): Reach {
  if (securityMode === "full-control") {
    return {
      words: "full-control, so that operations reach all that the hub's user may",
      isWeak: false,
      hasFiles: true,
    };
  }
  if (sandbox !== "off" && bubblewrap.works) {
    return {
      words: "limited-control, inside of bubblewrap and checked besides",
      isWeak: false,
      hasFiles: true,
    };
  }
  const why = sandbox === "off"
    ? "without bubblewrap, as sandbox is off"
    : `without bubblewrap (${bubblewrap.works ? "" : bubblewrap.reason})`;
  if (isChecked) {
    return {
      words: `limited-control ${why}: operations on files are held to the folder by checks alone`,
      isWeak: false,
      hasFiles: true,
    };
  }
  const isTaken = sandbox === "off";
  return {
    words: isTaken
      ? `limited-control ${why}, on a system that does not tell what was opened: a link that is put in a file's place in the moment between is followed`
      : `limited-control ${why}, on a system that does not tell what was opened: no operations on files are offered; sandbox off takes the risk`,
    isWeak: true,
    hasFiles: isTaken,
  };
}
