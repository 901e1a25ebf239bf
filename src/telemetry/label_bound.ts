/** Most values of one label; further ones are `other`. */
export const MAX_LABEL_VALUES = 200;

/**
 * Bounds the values of labels: the first 200 of each label pass, all later ones are `other`. A series lives as long
 * as the process, so that names that come from outside must not make new ones for ever.
 */
export function createLabelBound(max = MAX_LABEL_VALUES): (label: string, value: string) => string {
  const seen = new Map<string, Set<string>>();
  return (label, value) => {
    let values = seen.get(label);
    if (values === undefined) seen.set(label, values = new Set());
    if (values.has(value)) return value;
    if (values.size >= max) return "other";
    values.add(value);
    return value;
  };
}
