import { findIconFault, ICONS_MAX, type Icon } from "../contract/icons.ts";
import type { Json } from "../lib/json.ts";
import { addProblem, inside, type ConfigPlace } from "./config-place.ts";

/** Invalid icons, and those beyond the limit, are left out with a warning. */
export function readIcons(icons: readonly Json[] = [], place: ConfigPlace): Icon[] {
  if (icons.length > ICONS_MAX) addProblem(place, "too-many", `A server has at most ${ICONS_MAX} icons`, "warning");
  return icons.slice(0, ICONS_MAX).flatMap((icon, index): Icon | [] => {
    const fault = findIconFault(icon);
    if (fault === undefined) return icon as Icon;
    addProblem(inside(place, index), "bad-icon", `An icon ${fault}; it is left out`, "warning");
    return [];
  });
}
