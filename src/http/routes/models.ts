import { type Static, Type } from "@sinclair/typebox";
import type { ListedModel, ResolveModel } from "../../router/resolve.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";

const Model = Type.Object({
  id: Type.String(),
  object: Type.Literal("model"),
  created: Type.Integer({ description: "Seconds since the epoch" }),
  owned_by: Type.String(),
});
type Model = Static<typeof Model>;

/** What the model routes need. `createdAt` is when this configuration was loaded, in milliseconds since the epoch. */
export interface ModelsOptions {
  models: () => readonly ListedModel[];
  resolve: ResolveModel;
  createdAt: number;
}

/** `/v1/models` and `/v1/models/:id`; ids with slashes come encoded or not. */
export function modelRoutes(options: ModelsOptions): Route[] {
  const created = Math.floor(options.createdAt / 1000);
  const toWire = (id: string, ownedBy: string): Model => ({
    id,
    object: "model",
    created,
    owned_by: ownedBy,
  });
  return [
    defineRoute({
      method: "GET",
      path: "/v1/models",
      auth: "user",
      tag: "models",
      summary: "All models by their public names",
      responses: {
        200: {
          description: "The models",
          schema: Type.Object({ object: Type.Literal("list"), data: Type.Array(Model) }),
        },
      },
      handle: () =>
        jsonReply({
          object: "list",
          data: options.models().map(({ id, ownedBy }) => toWire(id, ownedBy)),
        }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/models/:id{.+}",
      auth: "user",
      tag: "models",
      summary: "One model",
      params: Type.Object({ id: Type.String({ minLength: 1, maxLength: 300 }) }),
      responses: {
        200: { description: "The model", schema: Model },
        404: { description: "There is no such model" },
      },
      handle({ params: { id } }) {
        const listed = options.models().find((model) => model.id === id);
        const [target] = options.resolve(id);
        return jsonReply(toWire(id, listed?.ownedBy ?? target?.provider ?? "loophub"));
      },
    }),
  ];
}
