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
 * Stands in for the form library's list of widgets (scripts/bundle-browser.mjs puts it there): those that a schema alone
 * leads to and that theme.tsx has none of its own for.
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
