import { HubError } from "../../core/error.ts";
import { Path } from "../files/parameters.ts";
import { quote, type Workspace } from "../files/workspace.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import { allowedCommands } from "./allowed_commands.ts";
import { Shell, type ShellRules } from "./shell.ts";

const NAMESPACE = "shell";
/** Time to end a program that does not want to, beyond its own. */
const END_MS = 20_000;
const LONGEST_MS = 3_600_000;

/** The operations that run programs in a workspace, all in the namespace `shell`. */
export function createShellOperations(workspace: Workspace, rules: ShellRules): Operation[] {
  const shell = new Shell(workspace, rules);
  return [
    ...rules.allow?.length === 0 ? [] : [createRun(shell, rules)],
    ...rules.script ? [createScript(shell, rules)] : [],
  ];
}

const common = ({ timeoutMs, maxTimeoutMs }: ShellRules) => ({
  cwd: Type.Optional(Path("Folder to run in, relative to the workspace; left out, the workspace")),
  timeoutMs: Type.Optional(
    Type.Integer({
      minimum: 100,
      maximum: maxTimeoutMs,
      description: `Longest time, in milliseconds; ${timeoutMs} when left out`,
    }),
  ),
});

const deadline = ({ maxTimeoutMs }: ShellRules) => Math.min(maxTimeoutMs + END_MS, LONGEST_MS);

/** `shell.run`: one program with its arguments; no shell reads them. */
function createRun(shell: Shell, rules: ShellRules): Operation {
  const { allow, timeoutMs: usual } = rules;
  const isAllowed = allow === null ? () => true : allowedCommands(allow);
  const assertAllowed = (command: string, args: readonly string[]) => {
    if (isAllowed(command, args)) return;
    const shown = quote([command, ...args].join(" "));
    throw new HubError("permission_denied", `${shown} may not run here.${known}`);
  };
  const known = allow === null ? "" : ` May run: ${allow.join(", ")}.`;
  return defineOperation({
    namespace: NAMESPACE,
    name: "run",
    description:
      ("Runs a program with its arguments to its end, with nothing to read, and gives exit code, stdout and stderr. " +
        "No shell is between: no pipes, no wildcards, no variables. Whatever it starts ends with it." +
        known)
        .slice(0, 1024),
    input: Type.Object({
      command: Type.String({ minLength: 1, maxLength: 4096, description: "Such as git" }),
      args: Type.Optional(
        Type.Array(Type.String({ maxLength: 65_536 }), {
          maxItems: 1000,
          description: 'Such as ["status", "--short"]',
        }),
      ),
      ...common(rules),
    }),
    effect: "effect",
    outside: "reads",
    risk: "high",
    timeoutMs: deadline(rules),
    inRunsOnly: true,
    preview: async ({ command, args = [], cwd = "." }) => {
      assertAllowed(command, args);
      return await Promise.resolve(shell.preview({ argv: [command, ...args], cwd }));
    },
    async run({ command, args = [], cwd = ".", timeoutMs = usual }, context) {
      assertAllowed(command, args);
      return await shell.run({ argv: [command, ...args], cwd, timeoutMs }, context);
    },
  });
}

/** `shell.script`: a text for `sh`, which no list of commands can hold. */
function createScript(shell: Shell, rules: ShellRules): Operation {
  return defineOperation({
    namespace: NAMESPACE,
    name: "script",
    description:
      "Runs a script of sh to its end, with nothing to read, and gives exit code, stdout and stderr. " +
      "For pipes, loops and the like; use shell.run for a single program. Whatever it starts ends with it.",
    input: Type.Object({
      script: Type.String({ minLength: 1, maxLength: 65_536, description: "The text of it" }),
      ...common(rules),
    }),
    effect: "effect",
    outside: "reads",
    risk: "high",
    timeoutMs: deadline(rules),
    inRunsOnly: true,
    preview: async ({ script, cwd = "." }) =>
      await Promise.resolve(shell.preview({ argv: ["sh", "-c", script], cwd })),
    async run({ script, cwd = ".", timeoutMs = rules.timeoutMs }, context) {
      return await shell.run({ argv: ["sh", "-c", script], cwd, timeoutMs }, context);
    },
  });
}
