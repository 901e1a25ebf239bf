import type { Bubblewrap } from "./sandbox.ts";

/** How far operations are to reach, and what is to hold them. */
export interface ReachWishes {
  securityMode: "limited-control" | "full-control";
  sandbox: "auto" | "required" | "off";
  /** Left out where no commands are wanted. */
  shell?: { script: boolean } | undefined;
}

/** What holds operations on this system. */
export interface Reach {
  /** In words for whoever runs the hub. */
  words: string;
  /** Whether that is less than what the settings may be taken to promise. */
  isWeak: boolean;
  /** Whether operations on files are offered. */
  hasFiles: boolean;
  hasCommands: boolean;
  hasScripts: boolean;
  /** Whether they run in bubblewrap. */
  isBoxed: boolean;
}

const EXPOSED =
  "they read what the hub's user may, the hub's environment included, and what leaves its group and takes its mark away may outlive them";

/** Whether this system tells what was opened. */
export function isCheckedHere(): boolean {
  return Deno.build.os === "linux";
}

/** What holds operations where bubblewrap works or not, and what was opened can be told or not. */
export function describeReach(
  { securityMode, sandbox, shell }: ReachWishes,
  { bubblewrap, isChecked }: { bubblewrap: Bubblewrap; isChecked: boolean },
): Reach {
  const isBoxed = sandbox !== "off" && bubblewrap.works;
  const wantsCommands = shell !== undefined;
  const why = sandbox === "off" ? "as sandbox is off" : bubblewrap.works ? "" : bubblewrap.reason;
  if (securityMode === "full-control") {
    const commands = isBoxed
      ? "commands run in bubblewrap all the same, so that they end with their calls and see no other process"
      : `commands run without bubblewrap (${why}): ${EXPOSED}`;
    return {
      words: `full-control: operations reach all that the hub's user may${
        wantsCommands ? `; ${commands}` : ""
      }`,
      isWeak: wantsCommands && !isBoxed,
      isBoxed,
      hasFiles: true,
      hasCommands: wantsCommands,
      hasScripts: shell?.script === true,
    };
  }
  if (isBoxed) {
    return {
      words: "limited-control, inside of bubblewrap and checked besides",
      isWeak: false,
      isBoxed,
      hasFiles: true,
      hasCommands: wantsCommands,
      hasScripts: shell?.script === true,
    };
  }
  const isTaken = sandbox === "off";
  const files = isChecked
    ? "operations on files are held to the folder by checks alone"
    : isTaken
    ? "this system does not tell what was opened: a link that is put in a file's place in the moment between is followed"
    : "this system does not tell what was opened: no operations on files are offered, sandbox off takes the risk";
  const commands = isTaken
    ? `commands are held by their list alone, no scripts run: ${EXPOSED}`
    : "no commands are offered";
  return {
    words: `limited-control without bubblewrap (${why}): ${files}${
      wantsCommands ? `; ${commands}` : ""
    }`,
    isWeak: !isChecked || wantsCommands,
    isBoxed,
    hasFiles: isChecked || isTaken,
    hasCommands: wantsCommands && isTaken,
    hasScripts: false,
  };
}
