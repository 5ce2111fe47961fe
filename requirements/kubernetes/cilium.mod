module strata/cilium

go 1.23.0

require github.com/AdaLogics/go-fuzz-headers v0.0.0-20230811130428-ced1acdcaa24

require github.com/Azure/azure-sdk-for-go v68.0.0+incompatible

require github.com/Azure/go-autorest/autorest v0.11.29

require github.com/Azure/go-autorest/autorest/adal v0.9.23

require github.com/Azure/go-autorest/autorest/azure/auth v0.5.12

require github.com/Azure/go-autorest/autorest/to v0.4.0

require github.com/aliyun/alibaba-cloud-sdk-go v1.62.631

require github.com/aws/aws-sdk-go-v2 v1.24.0

require github.com/aws/aws-sdk-go-v2/config v1.26.1

require github.com/aws/aws-sdk-go-v2/feature/ec2/imds v1.14.10

require github.com/aws/aws-sdk-go-v2/service/ec2 v1.141.0

require github.com/aws/smithy-go v1.19.0

require github.com/blang/semver/v4 v4.0.0

require github.com/bombsimon/logrusr/v4 v4.1.0

require github.com/cilium/checkmate v1.0.3

require github.com/cilium/coverbee v0.3.2

require github.com/cilium/deepequal-gen v0.0.0-20231116094812-0d6c075c335f

require github.com/cilium/dns v1.1.51-0.20240416134107-d47d0dd702a1

require github.com/cilium/ebpf v0.12.3

require github.com/cilium/fake v0.5.0

require github.com/cilium/linters v0.2.0

require github.com/cilium/lumberjack/v2 v2.3.0

require github.com/cilium/proxy v0.0.0-20250526114940-b80199397e8a

require github.com/cilium/workerpool v1.2.0

require github.com/containernetworking/cni v1.1.2

require github.com/containernetworking/plugins v1.4.0

require github.com/coreos/go-systemd/v22 v22.5.0

require github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc

require github.com/docker/docker v27.1.1+incompatible

require github.com/docker/libnetwork v0.8.0-dev.2.0.20210525090646-64b7a4574d14

require github.com/envoyproxy/go-control-plane/contrib v1.32.4

require github.com/envoyproxy/go-control-plane/envoy v1.32.4

require github.com/evanphx/json-patch v5.7.0+incompatible

require github.com/fsnotify/fsnotify v1.7.0

require github.com/go-openapi/errors v0.20.4

require github.com/go-openapi/loads v0.21.2

require github.com/go-openapi/runtime v0.26.2

require github.com/go-openapi/spec v0.20.11

require github.com/go-openapi/strfmt v0.21.9

require github.com/go-openapi/swag v0.22.7

require github.com/go-openapi/validate v0.22.3

require github.com/gogo/protobuf v1.3.2

require github.com/golang/groupcache v0.0.0-20210331224755-41bb18bfe9da

require github.com/google/go-cmp v0.6.0

require github.com/google/gopacket v1.1.19

require github.com/google/gops v0.3.27

require github.com/google/renameio/v2 v2.0.0

require github.com/google/uuid v1.6.0

require github.com/gorilla/mux v1.8.1

require github.com/grpc-ecosystem/go-grpc-prometheus v1.2.0

require github.com/hashicorp/consul/api v1.26.1

require github.com/hashicorp/go-immutable-radix/v2 v2.1.0

require github.com/hashicorp/golang-lru/v2 v2.0.7

require github.com/jeremywohl/flatten v1.0.1

require github.com/json-iterator/go v1.1.12

require github.com/kevinburke/ssh_config v1.2.0

require github.com/kr/pretty v0.3.1

require github.com/mattn/go-shellwords v1.0.12

require github.com/mdlayher/arp v0.0.0-20220221190821-c37aaafac7f9

require github.com/mdlayher/ethernet v0.0.0-20220221185849-529eae5b6118

require github.com/mitchellh/mapstructure v1.5.0

require github.com/onsi/ginkgo v1.16.5

require github.com/onsi/gomega v1.30.0

require github.com/osrg/gobgp/v3 v3.35.0

require github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2

require github.com/prometheus/client_golang v1.17.0

require github.com/prometheus/client_model v0.6.1

require github.com/prometheus/procfs v0.12.0

require github.com/russross/blackfriday/v2 v2.1.0

require github.com/sasha-s/go-deadlock v0.3.1

require github.com/servak/go-fastping v0.0.0-20160802140958-5718d12e20a0

require github.com/shirou/gopsutil/v3 v3.23.2

require github.com/sirupsen/logrus v1.9.3

require github.com/spf13/cast v1.6.0

require github.com/spf13/cobra v1.8.0

require github.com/spf13/pflag v1.0.5

require github.com/spf13/viper v1.18.1

require github.com/spiffe/go-spiffe/v2 v2.5.0

require github.com/spiffe/spire-api-sdk v1.8.5

require github.com/stretchr/testify v1.10.0

require github.com/tidwall/gjson v1.17.0

require github.com/tidwall/sjson v1.2.5

require github.com/vishvananda/netlink v1.2.1

require github.com/vishvananda/netns v0.0.4

require go.etcd.io/etcd/api/v3 v3.5.11

require go.etcd.io/etcd/client/pkg/v3 v3.5.11

require go.etcd.io/etcd/client/v3 v3.5.11

require go.opentelemetry.io/otel v1.34.0

require go.opentelemetry.io/otel/trace v1.34.0

require go.uber.org/dig v1.17.1

require go.uber.org/goleak v1.3.0

require go.uber.org/zap v1.26.0

require go4.org/netipx v0.0.0-20231129151722-fdeea329fbba

require golang.org/x/crypto v0.37.0

require golang.org/x/exp v0.0.0-20231206192017-f3f8817b8deb

require golang.org/x/mod v0.24.0

require golang.org/x/net v0.39.0

require golang.org/x/sync v0.13.0

require golang.org/x/sys v0.33.0

require golang.org/x/term v0.31.0

require golang.org/x/time v0.5.0

require golang.org/x/tools v0.32.0

require golang.zx2c4.com/wireguard v0.0.0-20231022001213-2e0774f246fb

require golang.zx2c4.com/wireguard/wgctrl v0.0.0-20230429144221-925a1e7659e6

require google.golang.org/genproto/googleapis/rpc v0.0.0-20250519155744-55703ea1f237

require google.golang.org/grpc v1.72.1

require google.golang.org/protobuf v1.36.6

require gopkg.in/ini.v1 v1.67.0

require gopkg.in/yaml.v3 v3.0.1

require k8s.io/api v0.29.2

require k8s.io/apiextensions-apiserver v0.29.2

require k8s.io/apimachinery v0.29.2

require k8s.io/client-go v0.29.2

require k8s.io/code-generator v0.29.2

require k8s.io/klog/v2 v2.120.0

require k8s.io/utils v0.0.0-20240102154912-e7106e64919e

require sigs.k8s.io/controller-runtime v0.16.3

require sigs.k8s.io/gateway-api v1.0.1-0.20240305045206-346e951245f2

require sigs.k8s.io/yaml v1.4.0

require cel.dev/expr v0.20.0

require github.com/Azure/go-autorest v14.2.0+incompatible

require github.com/Azure/go-autorest/autorest/azure/cli v0.4.5

require github.com/Azure/go-autorest/autorest/date v0.3.0

require github.com/Azure/go-autorest/autorest/validation v0.3.1

require github.com/Azure/go-autorest/logger v0.2.1

require github.com/Azure/go-autorest/tracing v0.6.0

require github.com/Microsoft/go-winio v0.6.2

require github.com/alecthomas/participle/v2 v2.0.0-beta.4

require github.com/antlr/antlr4/runtime/Go/antlr/v4 v4.0.0-20230305170008-8188dc5388df

require github.com/armon/go-metrics v0.4.1

require github.com/asaskevich/govalidator v0.0.0-20230301143203-a9d515a09cc2

require github.com/aws/aws-sdk-go-v2/credentials v1.16.12

require github.com/aws/aws-sdk-go-v2/internal/configsources v1.2.9

require github.com/aws/aws-sdk-go-v2/internal/endpoints/v2 v2.5.9

require github.com/aws/aws-sdk-go-v2/internal/ini v1.7.2

require github.com/aws/aws-sdk-go-v2/service/internal/accept-encoding v1.10.4

require github.com/aws/aws-sdk-go-v2/service/internal/presigned-url v1.10.9

require github.com/aws/aws-sdk-go-v2/service/sso v1.18.5

require github.com/aws/aws-sdk-go-v2/service/ssooidc v1.21.5

require github.com/aws/aws-sdk-go-v2/service/sts v1.26.5

require github.com/beorn7/perks v1.0.1

require github.com/cespare/xxhash/v2 v2.3.0

require github.com/cncf/xds/go v0.0.0-20250501225837-2ac532fd4443

require github.com/containerd/containerd v1.7.27

require github.com/containerd/log v0.1.0

require github.com/coreos/go-semver v0.3.1

require github.com/cpuguy83/go-md2man/v2 v2.0.3

require github.com/dgryski/go-farm v0.0.0-20200201041132-a6ae2369ad13

require github.com/dimchansky/utfbom v1.1.1

require github.com/distribution/reference v0.6.0

require github.com/docker/go-connections v0.4.0

require github.com/docker/go-units v0.5.0

require github.com/eapache/channels v1.1.0

require github.com/eapache/queue v1.1.0

require github.com/emicklei/go-restful/v3 v3.11.2

require github.com/envoyproxy/protoc-gen-validate v1.2.1

require github.com/evanphx/json-patch/v5 v5.7.0

require github.com/fatih/color v1.16.0

require github.com/felixge/httpsnoop v1.0.3

require github.com/go-jose/go-jose/v4 v4.0.5

require github.com/go-kit/kit v0.12.0

require github.com/go-kit/log v0.2.1

require github.com/go-logfmt/logfmt v0.5.1

require github.com/go-logr/logr v1.4.2

require github.com/go-logr/stdr v1.2.2

require github.com/go-ole/go-ole v1.2.6

require github.com/go-openapi/analysis v0.21.4

require github.com/go-openapi/jsonpointer v0.20.2

require github.com/go-openapi/jsonreference v0.20.4

require github.com/gobuffalo/flect v1.0.2

require github.com/godbus/dbus/v5 v5.1.0

require github.com/golang-jwt/jwt/v4 v4.5.2

require github.com/golang/protobuf v1.5.4

require github.com/google/cel-go v0.17.7

require github.com/google/gnostic-models v0.6.8

require github.com/google/gofuzz v1.2.0

require github.com/gorilla/websocket v1.5.1

require github.com/hashicorp/errwrap v1.1.0

require github.com/hashicorp/go-cleanhttp v0.5.2

require github.com/hashicorp/go-hclog v1.5.0

require github.com/hashicorp/go-immutable-radix v1.3.1

require github.com/hashicorp/go-multierror v1.1.1

require github.com/hashicorp/go-rootcerts v1.0.2

require github.com/hashicorp/golang-lru v0.5.4

require github.com/hashicorp/hcl v1.0.0

require github.com/hashicorp/serf v0.10.1

require github.com/imdario/mergo v0.3.16

require github.com/inconshreveable/mousetrap v1.1.0

require github.com/ishidawataru/sctp v0.0.0-20210707070123-9a39160e9062

require github.com/jmespath/go-jmespath v0.4.0

require github.com/josharian/intern v1.0.0

require github.com/josharian/native v1.1.0

require github.com/k-sone/critbitgo v1.4.0

require github.com/kr/text v0.2.0

require github.com/lufia/plan9stats v0.0.0-20211012122336-39d0f177ccd0

require github.com/magiconair/properties v1.8.7

require github.com/mailru/easyjson v0.7.7

require github.com/mattn/go-colorable v0.1.13

require github.com/mattn/go-isatty v0.0.20

require github.com/matttproud/golang_protobuf_extensions/v2 v2.0.0

require github.com/mdlayher/genetlink v1.3.2

require github.com/mdlayher/ndp v0.0.0-20200602162440-17ab9e3e5567

require github.com/mdlayher/netlink v1.7.2

require github.com/mdlayher/packet v1.1.2

require github.com/mdlayher/socket v0.4.1

require github.com/mikioh/ipaddr v0.0.0-20190404000644-d465c8ab6721

require github.com/mitchellh/go-homedir v1.1.0

require github.com/moby/docker-image-spec v1.3.1

require github.com/moby/spdystream v0.2.0

require github.com/moby/sys/userns v0.1.0

require github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd

require github.com/modern-go/reflect2 v1.0.2

require github.com/morikuni/aec v1.0.0

require github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822

require github.com/mxk/go-flowrate v0.0.0-20140419014527-cca7078d478f

require github.com/nxadm/tail v1.4.8

require github.com/oklog/ulid v1.3.1

require github.com/opencontainers/go-digest v1.0.0

require github.com/opencontainers/image-spec v1.1.0

require github.com/opentracing/opentracing-go v1.2.1-0.20220228012449-10b1cf09e00b

require github.com/pelletier/go-toml/v2 v2.1.0

require github.com/petermattis/goid v0.0.0-20180202154549-b0b1615b78e5

require github.com/pkg/errors v0.9.1

require github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10

require github.com/power-devops/perfstat v0.0.0-20210106213030-5aafc221ea8c

require github.com/prometheus/common v0.45.0

require github.com/rogpeppe/go-internal v1.13.1

require github.com/sagikazarmark/locafero v0.4.0

require github.com/sagikazarmark/slog-shim v0.1.0

require github.com/sourcegraph/conc v0.3.0

require github.com/spf13/afero v1.11.0

require github.com/stoewer/go-strcase v1.2.0

require github.com/subosito/gotenv v1.6.0

require github.com/tidwall/match v1.1.1

require github.com/tidwall/pretty v1.2.0

require github.com/tklauser/go-sysconf v0.3.11

require github.com/tklauser/numcpus v0.6.0

require github.com/yusufpapurcu/wmi v1.2.3

require github.com/zeebo/errs v1.4.0

require gitlab.com/golang-commonmark/puny v0.0.0-20191124015043-9f83538fa04f

require go.mongodb.org/mongo-driver v1.13.1

require go.opentelemetry.io/auto/sdk v1.1.0

require go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.45.0

require go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.28.0

require go.opentelemetry.io/otel/metric v1.34.0

require go.opentelemetry.io/proto/otlp v1.3.1

require go.uber.org/multierr v1.11.0

require golang.org/x/oauth2 v0.27.0

require golang.org/x/text v0.24.0

require golang.zx2c4.com/wintun v0.0.0-20230126152724-0fa3db229ce2

require gomodules.xyz/jsonpatch/v2 v2.4.0

require google.golang.org/genproto/googleapis/api v0.0.0-20250519155744-55703ea1f237

require gopkg.in/inf.v0 v0.9.1

require gopkg.in/tomb.v1 v1.0.0-20141024135613-dd632973f1e7

require gopkg.in/yaml.v2 v2.4.0

require gotest.tools/v3 v3.5.2

require k8s.io/apiserver v0.29.2

require k8s.io/component-base v0.29.2

require k8s.io/gengo v0.0.0-20230829151522-9cce18d56c01

require k8s.io/kube-openapi v0.0.0-20240105020646-a37d4de58910

require sigs.k8s.io/json v0.0.0-20221116044647-bc3834ca7abd

require sigs.k8s.io/structured-merge-diff/v4 v4.4.1

require github.com/cilium/cilium v1.15.19 // indirect

replace go.universe.tf/metallb => github.com/cilium/metallb v0.1.1-0.20220829170633-5d7dfb1129f7

replace sigs.k8s.io/controller-tools => github.com/cilium/controller-tools v0.8.0-1
