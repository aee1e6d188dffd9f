import CheckboxesWidget from "@rjsf/core/lib/components/widgets/CheckboxesWidget.js";
import ColorWidget from "@rjsf/core/lib/components/widgets/ColorWidget.js";
import DateTimeWidget from "@rjsf/core/lib/components/widgets/DateTimeWidget.js";
import DateWidget from "@rjsf/core/lib/components/widgets/DateWidget.js";
import EmailWidget from "@rjsf/core/lib/components/widgets/EmailWidget.js";
import FileWidget from "@rjsf/core/lib/components/widgets/FileWidget.js";
import PasswordWidget from "@rjsf/core/lib/components/widgets/PasswordWidget.js";
import TimeWidget from "@rjsf/core/lib/components/widgets/TimeWidget.js";
import URLWidget from "@rjsf/core/lib/components/widgets/URLWidget.js";

/**
 * Replaces the form library's list of widgets (by scripts/bundle-browser.mjs) with those that a schema alone needs and
 * theme.tsx does not define.
 */
export default function widgets() {
  return {
    CheckboxesWidget,
    ColorWidget,
    DateTimeWidget,
    DateWidget,
    EmailWidget,
    FileWidget,
    PasswordWidget,
    TimeWidget,
    URLWidget,
  };
}
