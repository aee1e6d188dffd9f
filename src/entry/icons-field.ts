import { faultOfIcon, ICONS_MAX, type Icon } from "../contract/icons.ts";
import type { Json } from "../lib/json.ts";
import { complain, inside, type ConfigPlace } from "./config-place.ts";

/** Invalid icons, and those beyond the limit, are left out with a warning. */
export function readIcons(icons: readonly Json[] = [], place: ConfigPlace): Icon[] {
  if (icons.length > ICONS_MAX) complain(place, "too-many", `A server has at most ${ICONS_MAX} icons`, "warning");
  return icons.slice(0, ICONS_MAX).flatMap((icon, index): Icon | [] => {
    const fault = faultOfIcon(icon);
    if (fault === undefined) return icon as Icon;
    complain(inside(place, index), "bad-icon", `An icon ${fault}; it is left out`, "warning");
    return [];
  });
}
