import { createRequire } from "node:module";
import type Handlebars from "handlebars";

/** Handlebars without its compiler, which only `npm run build` uses. The types are those of the whole package. */
export const handlebars = createRequire(import.meta.url)("handlebars/runtime") as typeof Handlebars;
