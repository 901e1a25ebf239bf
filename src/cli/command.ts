import { didYouMean } from "../config/nearest_name.ts";
import { visibleText } from "../core/visible_text.ts";
import { EXIT } from "./exit_codes.ts";
import { printError } from "./print.ts";

/** One way to call a command: what follows its name and verb, and what it does. */
export interface Form {
  args: string;
  summary: string;
}

/** The forms of a command by their verb; a form without a verb has an empty one. */
export type Forms<Verb extends string = string> = Readonly<Record<Verb, Form>>;

/** A command of `loophub`. Help, usage texts and the dispatcher read the same table of them. */
export interface Command {
  name: string;
  /** Other names of the same. */
  aliases?: readonly string[];
  /** Empty for a command that people do not type. */
  forms: Forms;
  /** What its usage text says below its forms. */
  notes?: string;
  /** Whether it goes on, and ends as well, when its output has no reader. */
  serves?: boolean;
  /** Gives the exit code. */
  run(args: string[]): number | Promise<number>;
}

/** Column in which summaries begin. */
const SUMMARY_AT = 48;
const WIDTH = 110;

/** Whether one of these forms has this verb. */
export function isVerb<Verb extends string>(forms: Forms<Verb>, word: string): word is Verb {
  return Object.hasOwn(forms, word);
}

/** The forms of commands, one behind the other, each with what it does. */
export function describeForms(commands: readonly Command[]): string {
  return commands.flatMap((command) =>
    Object.entries(command.forms).map(([verb, form]) => describeForm([command.name, verb], form))
  ).join("\n");
}

/** What a command wants, as help. */
export function describeUsage(command: Command): string {
  const { name, forms, notes } = command;
  const wants = Object.keys(forms).length > 1 ? "wants one of" : "wants";
  const text = `loophub ${name} ${wants}\n\n${describeForms([command])}`;
  return notes === undefined ? text : `${text}\n\n${notes}`;
}

/**
 * Writes to stderr what is wrong with a call of a command, below the form that was meant; gives the exit code. `words` are
 * its arguments without options. Without a `problem` it is read off the words that the form requires.
 */
export function refuseCall(
  command: Command,
  words: readonly string[],
  problem?: string,
): number {
  const { name, forms } = command;
  const [word = "", ...given] = words;
  const verb = Object.hasOwn(forms, word) ? word : "";
  const form = forms[verb];
  const see = `see loophub ${name} --help`;
  const isUnknown = word !== "" && verb === "";
  if (form === undefined || isUnknown) {
    const verbs = Object.keys(forms).filter((one) => /^[a-z]/.test(one));
    const got = isUnknown
      ? `${visibleText(JSON.stringify(word))} is none${didYouMean(word, verbs)}`
      : "";
    const wants = `loophub ${name} wants one of ${verbs.join(", ")}`;
    printError(`${wants}${isUnknown ? `; ${got}` : ""}; ${see}`);
    return EXIT.usage;
  }
  const missing = requiredWords(form).slice(given.length);
  const call = ["loophub", name, verb].filter((part) => part !== "").join(" ");
  const what = problem ??
    (missing.length > 0
      ? `${missing.join(" and ")} ${missing.length > 1 ? "are" : "is"} missing`
      : "these arguments do not fit");
  printError(`${describeForm([name, verb], form)}\n\n${call}: ${what}; ${see}`);
  return EXIT.usage;
}

/** The arguments of a form that are no options and have to be there. */
function requiredWords({ args }: Form): string[] {
  const words = args.replace(/\[[^\]]*\]/g, "").split(" ").filter((word) => word !== "");
  return words.filter((word, at) => !word.startsWith("--") && !words[at - 1]?.startsWith("--"));
}

function describeForm(words: readonly string[], { args, summary }: Form): string {
  const call = ["  loophub", ...words].filter((word) => word !== "").join(" ");
  const lines = [call];
  for (const option of args.match(/\[[^\]]*\]|\S+/g) ?? []) {
    const line = `${lines.at(-1)} ${option}`;
    if (line.length <= WIDTH) lines[lines.length - 1] = line;
    else lines.push(`${" ".repeat(call.length)} ${option}`);
  }
  const last = lines.at(-1) ?? "";
  return last.length <= SUMMARY_AT - 2
    ? [...lines.slice(0, -1), last.padEnd(SUMMARY_AT) + summary].join("\n")
    : [...lines, " ".repeat(SUMMARY_AT) + summary].join("\n");
}
