import type Handlebars from "handlebars";
import runtime from "handlebars/runtime.js";

/** Handlebars without its compiler, which only `npm run build` uses. The types are those of the whole package. */
export const handlebars = runtime as typeof Handlebars;
