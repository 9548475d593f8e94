"use strict";

// In a file of its own because the page's policy allows no script inside it.
const place = document.getElementById("docs");

SwaggerUIBundle({
  domNode: place,
  url: place.dataset.description,
  // By default the description's address is sent to a validator on another host.
  validatorUrl: null,
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
});
