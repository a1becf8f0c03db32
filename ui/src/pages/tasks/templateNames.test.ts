import { expect, test } from "vitest";
import { listTemplateNames } from "@/pages/tasks/templateNames";

test.each([
  ["Hello.", []],
  ["What should I wear in {{ city }} on {{ day }}?", ["city", "day"]],
  ["{{ user.name | upper }} and {{ items | join(', ') }}", ["items", "user"]],
  ["{{.city}} {{json .report}}", ["city", "report"]],
  [
    "{% if mood is defined and mood == 'good' %}{{ mood }}{% else %}{{ other }}{% endif %}",
    ["mood", "other"],
  ],
  [
    "{% for row in rows if row.count > least %}{{ loop.index }}. {{ row.name }}{% endfor %}{{ row }}",
    ["least", "row", "rows"],
  ],
  ["{% for key, value in pairs | items %}{{ key }}={{ value }}{% endfor %}", ["pairs"]],
  ["{{ name | default('no name') | truncate(length=20) }}", ["name"]],
  ["{# {{ hidden }} #}{% raw %}{{ shown }}{% endraw %}", []],
  ["{{- trimmed -}}", ["trimmed"]],
  ["{{ unfinished", []],
])("the parameters of %s are found", (source, names) => {
  expect(listTemplateNames(source)).toEqual(names);
});
