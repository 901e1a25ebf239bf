import type { FunctionDefinition, ModelRequest } from "../core/model.ts";

/** Stands at the end of a description that was cut, so that the model knows. */
const mark = (most: number) => ` [… cut: this provider takes ${most} characters]`;

/** The request with descriptions of tools that the provider takes; the same request where none is longer. */
export function cutDescriptions(request: ModelRequest, most: number | null): ModelRequest {
  const isLong = ({ description }: FunctionDefinition) => description.length > (most ?? Infinity);
  if (most === null || !request.tools.some(isLong)) return request;
  const end = mark(most);
  const tools = request.tools.map((tool) => {
    if (!isLong(tool)) return tool;
    const kept = tool.description.slice(0, Math.max(0, most - end.length)).trimEnd();
    return { ...tool, description: (kept.toWellFormed() + end).slice(0, most) };
  });
  return { ...request, tools };
}
