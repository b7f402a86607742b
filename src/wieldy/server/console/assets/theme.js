// The colours that the person chose, before anything is shown.
{
  const chosen = localStorage.getItem("wieldy.theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}
