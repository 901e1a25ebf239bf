/** The place of a setting: member names and list positions from the root. */
export type ConfigPath = readonly (string | number)[];

const PLAIN_NAME = /^[A-Za-z_$][A-Za-z0-9_$-]*$/;

/** A path as people write it: `agents.coder.models[0]`, `models["gpt-4.1"].targets`; the root is `(root)`. */
export function formatPath(path: ConfigPath): string {
  if (path.length === 0) return "(root)";
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (!PLAIN_NAME.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text;
}
