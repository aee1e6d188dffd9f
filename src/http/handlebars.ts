import { createRequire } from "node:module";
import type Handlebars from "handlebars";

/** Without its compiler, which `npm run build` has used instead. The types are those of the whole. */
export const handlebars = createRequire(import.meta.url)("handlebars/runtime") as typeof Handlebars;
