import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "max-len": ["error", 120],
      "no-implied-eval": "error",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "text gets into the page through textContent only" },
        { property: "outerHTML", message: "text gets into the page through textContent only" },
        { property: "insertAdjacentHTML", message: "text gets into the page through textContent only" },
      ],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
