import { type Static, Type } from "@sinclair/typebox";

const closed = { additionalProperties: false } as const;

/** The folder that agents work in, and how far they reach. */
export const Workspace = Type.Object({
  dir: Type.String({
    minLength: 1,
    wanted: "the path of a folder",
    description: "Folder that agents work in, relative to the configuration file.",
  }),
  securityMode: Type.Union([Type.Literal("limited-control"), Type.Literal("full-control")], {
    default: "limited-control",
    description:
      "Whether operations reach nothing outside of the folder, or whatever the hub's user may.",
  }),
  sandbox: Type.Union([Type.Literal("auto"), Type.Literal("required"), Type.Literal("off")], {
    default: "auto",
    description:
      "Whether operations run in bubblewrap: where it works, or else the hub does not start, or never.",
  }),
  maxFileBytes: Type.Integer({
    minimum: 1024,
    maximum: 1024 * 1024 * 1024,
    default: 10 * 1024 * 1024,
    description: "Largest file that is read whole or written.",
  }),
}, {
  ...closed,
  description: "The folder that agents work in. Left out, there are no operations on files.",
});
export type Workspace = Static<typeof Workspace>;
