import { type Static, Type } from "@sinclair/typebox";
import { toHubError } from "../../core/error.ts";
import { allows, type KeyPolicy } from "../../policy/key_policy.ts";
import { type ListedModel, modelNotFound, type ResolveModel } from "../../router/resolve.ts";
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
  policyOf(keyId: string): KeyPolicy;
  createdAt: number;
}

/** `/v1/models` and `/v1/models/:id`; ids with slashes come encoded or not. A key sees what it may call. */
export function modelRoutes(options: ModelsOptions): Route[] {
  const created = Math.floor(options.createdAt / 1000);
  const toWire = (id: string, ownedBy: string): Model => ({
    id,
    object: "model",
    created,
    owned_by: ownedBy,
  });
  const { models, resolve, policyOf } = options;
  return [
    defineRoute({
      method: "GET",
      path: "/v1/models",
      auth: "user",
      tag: "models",
      summary: "Models that the key may call, by their public names",
      responses: {
        200: {
          description: "The models",
          schema: Type.Object({ object: Type.Literal("list"), data: Type.Array(Model) }),
        },
      },
      handle({ principal: { keyId } }) {
        const { models: names } = policyOf(keyId);
        const data = models().filter(({ id }) => allows(names, id));
        return jsonReply({
          object: "list",
          data: data.map(({ id, ownedBy }) => toWire(id, ownedBy)),
        });
      },
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
        404: { description: "There is no such model, or none for this key" },
      },
      handle({ params: { id }, principal: { keyId } }) {
        const { models: names } = policyOf(keyId);
        if (!allows(names, id)) throw modelNotFound(id);
        const listed = models().find((model) => model.id === id);
        const [target] = names === undefined ? resolve(id) : resolveUnhinted(resolve, id);
        return jsonReply(toWire(id, listed?.ownedBy ?? target?.provider ?? "loophub"));
      },
    }),
  ];
}

/** As `resolve`, without a word about names that the key may not know. */
function resolveUnhinted(resolve: ResolveModel, id: string): ReturnType<ResolveModel> {
  try {
    return resolve(id);
  } catch (error) {
    throw toHubError(error).code === "model_not_found" ? modelNotFound(id) : error;
  }
}
