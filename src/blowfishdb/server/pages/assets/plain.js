// Pages without a shell: follows the chosen theme, and sends a form as JSON.
(() => {
  const chosen = document.cookie.match(/(?:^|; )blowfish_theme=(dark|light)/);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dress = () => document.body.classList.toggle("bf-dark", chosen ? chosen[1] === "dark" : system.matches);
  system.addEventListener("change", dress);
  dress();
  const form = document.querySelector("form[data-method]");
  if (!form) return;
  const said = form.querySelector(".bf-said"), button = form.querySelector("button");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const sent = Object.fromEntries(new FormData(form));
    if ("again" in sent && sent.again !== sent.new_password) {
      said.textContent = "The two new passwords are not the same.";
      return;
    }
    delete sent.again;
    button.disabled = true;
    said.textContent = "";
    const headers = { "Content-Type": "application/json" };
    if (form.dataset.csrfToken) headers["X-CSRF-Token"] = form.dataset.csrfToken;
    try {
      const answer = await fetch(form.action, { method: form.dataset.method, headers, body: JSON.stringify(sent) });
      const told = await answer.json();
      if (answer.ok) return location.replace(told.must_change ? "/password" : form.dataset.then);
      said.textContent = told.detail ? told.detail[0].toUpperCase() + told.detail.slice(1) : "That did not work. Try again.";
    } catch {
      said.textContent = "The server does not answer. Try again in a moment.";
    }
    button.disabled = false;
    form.querySelector("input[type=password]").focus();
  });
})();
