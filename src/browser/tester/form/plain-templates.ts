import ArrayFieldDescriptionTemplate from "@rjsf/core/lib/components/templates/ArrayFieldDescriptionTemplate.js";
import ArrayFieldItemButtonsTemplate from "@rjsf/core/lib/components/templates/ArrayFieldItemButtonsTemplate.js";
import ArrayFieldTitleTemplate from "@rjsf/core/lib/components/templates/ArrayFieldTitleTemplate.js";
import BaseInputTemplate from "@rjsf/core/lib/components/templates/BaseInputTemplate.js";
import CyclicSchemaExpandTemplate from "@rjsf/core/lib/components/templates/CyclicSchemaExpandTemplate.js";
import FallbackFieldTemplate from "@rjsf/core/lib/components/templates/FallbackFieldTemplate.js";
import FieldHelpTemplate from "@rjsf/core/lib/components/templates/FieldHelpTemplate.js";
import TitleFieldTemplate from "@rjsf/core/lib/components/templates/TitleField.js";
import UnsupportedFieldTemplate from "@rjsf/core/lib/components/templates/UnsupportedField.js";

/**
 * Replaces the form library's list of templates (by scripts/bundle-browser.mjs) with those that theme.tsx does not
 * define.
 */
export default function templates() {
  return {
    ArrayFieldDescriptionTemplate,
    ArrayFieldItemButtonsTemplate,
    ArrayFieldTitleTemplate,
    BaseInputTemplate,
    CyclicSchemaExpandTemplate,
    FallbackFieldTemplate,
    FieldHelpTemplate,
    TitleFieldTemplate,
    UnsupportedFieldTemplate,
    ButtonTemplates: {},
  };
}
