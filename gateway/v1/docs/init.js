"use strict";

// Nothing is asked of any other host: no validator, no configuration from the
// page's own URL. A key that is typed in is gone when the page is.
const page = document.getElementById("swagger-ui");

SwaggerUIBundle({
  domNode: page,
  url: page.dataset.openapi,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false,
  queryConfigEnabled: false,
  supportedSubmitMethods: ["get", "head"],
  validatorUrl: null,
});
