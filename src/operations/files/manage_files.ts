import { HubError } from "../../core/error.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";
import { NAMESPACE, Path } from "./parameters.ts";
import { assertShown, lookAt, lookAtTarget } from "./shown_state.ts";
import { type Place, quote, toPlace, type Workspace } from "./workspace.ts";
import type { WorkspaceFiles } from "./workspace_files.ts";

/** `file.stat`: what a path stands for. */
export function createStatFile(workspace: Workspace, files: WorkspaceFiles): Operation {
  return defineOperation({
    namespace: NAMESPACE,
    name: "stat",
    description:
      "Tells what a path stands for: file, folder, link or other, with size, time of the last change, permissions, and where a link leads.",
    input: Type.Object({ path: Path("Relative to the workspace") }),
    effect: "pure",
    outside: "reads",
    inRunsOnly: true,
    async run({ path }, { signal }) {
      const place = toPlace(workspace, path);
      const { changed, ...facts } = await files.stat(place, signal);
      return { path: place.shown, ...facts, changed: new Date(changed * 1000).toISOString() };
    },
  });
}

/** `file.move`: another name, or another folder. */
export function createMoveFile(workspace: Workspace, files: WorkspaceFiles): Operation {
  const lookAtBoth = async (
    { source, target, signal }: { source: Place; target: Place; signal: AbortSignal },
  ) => {
    const moved = await lookAt(files, { place: source, workspace, signal });
    const replaced = await lookAtTarget(files, { place: target, workspace, signal });
    const state = JSON.stringify([moved.state, replaced?.state ?? null]);
    return { moved: moved.words, replaced: replaced?.words ?? null, state };
  };
  return defineOperation({
    namespace: NAMESPACE,
    name: "move",
    description:
      "Moves or renames a file, a folder or a link. The new path is the whole one, its name included; " +
      "folders that are missing are made. A file that is there is replaced only with overwrite.",
    input: Type.Object({
      from: Path("What is moved, relative to the workspace"),
      to: Path("Its new path, relative to the workspace"),
      overwrite: Type.Optional(Type.Boolean({ description: "False when left out" })),
    }),
    effect: "effect",
    risk: "medium",
    inRunsOnly: true,
    async preview({ from, to, overwrite = false }, { signal }) {
      const [source, target] = [toPlace(workspace, from), toPlace(workspace, to)];
      assertNotRoot(source);
      assertNotRoot(target);
      const { moved, replaced, state } = await lookAtBoth({ source, target, signal });
      if (replaced !== null && !overwrite) {
        throw new HubError("conflict", `There is something at ${quote(target.shown)} already`);
      }
      const rest = replaced === null ? "" : `, in the place of ${replaced}`;
      const text = `Moves ${source.shown} (${moved}) to ${target.shown}${rest}`;
      return { preview: { kind: "text", text }, state };
    },
    async run({ from, to, overwrite = false }, { signal, shownState }) {
      const [source, target] = [toPlace(workspace, from), toPlace(workspace, to)];
      assertNotRoot(source);
      assertNotRoot(target);
      await files.alone(source, async () => {
        if (shownState !== undefined) {
          const { state: found } = await lookAtBoth({ source, target, signal });
          assertShown(source.shown, { found, wanted: shownState });
        }
        await files.move(source, { to: target, overwrite, signal });
      });
      return `Moved ${source.shown} to ${target.shown}`;
    },
  });
}

/** `file.delete`: removes for good. */
export function createDeleteFile(workspace: Workspace, files: WorkspaceFiles): Operation {
  return defineOperation({
    namespace: NAMESPACE,
    name: "delete",
    description:
      "Removes a file, a link (not what it leads to) or an empty folder for good; with recursive, a folder and all that is in it.",
    input: Type.Object({
      path: Path("Relative to the workspace"),
      recursive: Type.Optional(Type.Boolean({ description: "False when left out" })),
    }),
    effect: "effect",
    risk: "high",
    inRunsOnly: true,
    async preview({ path, recursive = false }, { signal }) {
      const place = toPlace(workspace, path);
      assertNotRoot(place);
      const { words, state } = await lookAt(files, { place, workspace, signal });
      const all = recursive ? ", with all that is in it" : "";
      const text = `Removes ${place.shown} for good: ${words}${all}`;
      return { preview: { kind: "text", text }, state };
    },
    async run({ path, recursive = false }, { signal, shownState }) {
      const place = toPlace(workspace, path);
      assertNotRoot(place);
      await files.alone(place, async () => {
        if (shownState !== undefined) {
          const { state: found } = await lookAt(files, { place, workspace, signal });
          assertShown(place.shown, { found, wanted: shownState });
        }
        await files.delete(place, { recursive, signal });
      });
      return `Removed ${place.shown}`;
    },
  });
}

function assertNotRoot({ name, shown }: Place): void {
  if (name !== "." && shown !== ".") return;
  throw new HubError("invalid_request", "The workspace itself can be neither moved nor removed");
}
