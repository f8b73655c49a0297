import setup

file = models / "Caddyfile"
write(file, file.read_text().replace("{$TRITON_HEALTH:/v2/health/ready}", "/v2/models/draw/ready"))
setup.reload(file)
