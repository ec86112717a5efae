# A server of translations (docs/howto/production.md):
#   docker build -t regard .
#   docker run -p 127.0.0.1:8000:8000 -v "$PWD/runs:/models:ro" regard /models/first
FROM python:3.12-slim

# The PyTorch of the Python Package Index has libraries for GPUs, of several gigabytes; this index has one without them.
# The packages that PyTorch needs are not there in the versions of constraints.txt; the second command installs them.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
COPY recipes recipes
RUN pip install --no-cache-dir -c constraints.txt --no-deps --index-url "$TORCH_INDEX" torch \
    && pip install --no-cache-dir -c constraints.txt '.[serve]' \
    && useradd --system --no-create-home --uid 10001 regard

# Compiled functions are kept here, the only directory that is written.
ENV NUMBA_CACHE_DIR=/tmp/numba
USER 10001
WORKDIR /models
VOLUME /models
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["regard", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/model"]
