module strata/calico

go 1.23.8

require github.com/BurntSushi/toml v1.3.2

require github.com/Microsoft/hcsshim v0.11.8

require github.com/apparentlymart/go-cidr v1.1.0

require github.com/aws/aws-sdk-go-v2 v1.25.0

require github.com/aws/aws-sdk-go-v2/config v1.27.0

require github.com/aws/aws-sdk-go-v2/feature/ec2/imds v1.15.0

require github.com/aws/aws-sdk-go-v2/service/ec2 v1.148.0

require github.com/aws/smithy-go v1.20.0

require github.com/buger/jsonparser v1.1.1

require github.com/container-storage-interface/spec v1.9.0

require github.com/containernetworking/cni v1.2.0

require github.com/containernetworking/plugins v1.1.1

require github.com/coreos/go-semver v0.3.1

require github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc

require github.com/docopt/docopt-go v0.0.0-20180111231733-ee0de3bc6815

require github.com/envoyproxy/go-control-plane v0.12.0

require github.com/fsnotify/fsnotify v1.7.0

require github.com/go-ini/ini v1.67.0

require github.com/gofrs/flock v0.8.1

require github.com/gogo/protobuf v1.3.2

require github.com/golang-collections/collections v0.0.0-20130729185459-604e922904d3

require github.com/golang/protobuf v1.5.4

require github.com/golang/snappy v0.0.4

require github.com/google/btree v1.1.2

require github.com/google/go-cmp v0.6.0

require github.com/google/gopacket v1.1.19

require github.com/google/netstack v0.0.0-20191123085552-55fcc16cd0eb

require github.com/google/safetext v0.0.0-20230106111101-7156a760e523

require github.com/google/uuid v1.6.0

require github.com/gruntwork-io/terratest v0.46.7

require github.com/ishidawataru/sctp v0.0.0-20230406120618-7ff4192f6ff2

require github.com/joho/godotenv v1.5.1

require github.com/json-iterator/go v1.1.12

require github.com/juju/clock v1.0.3

require github.com/juju/errors v1.0.0

require github.com/juju/mutex v0.0.0-20180619145857-d21b13acf4bf

require github.com/kardianos/osext v0.0.0-20190222173326-2bc1f35cddc0

require github.com/kelseyhightower/envconfig v1.4.0

require github.com/kelseyhightower/memkv v0.1.1

require github.com/libp2p/go-reuseport v0.4.0

require github.com/mcuadros/go-version v0.0.0-20190830083331-035f6764e8d2

require github.com/mipearson/rfw v0.0.0-20170619235010-6f0a6f3266ba

require github.com/mitchellh/go-homedir v1.1.0

require github.com/natefinch/atomic v1.0.1

require github.com/nmrshll/go-cp v0.0.0-20180115193924-61436d3b7cfa

require github.com/olekukonko/tablewriter v0.0.5

require github.com/onsi/ginkgo v1.16.5

require github.com/onsi/ginkgo/v2 v2.17.1

require github.com/onsi/gomega v1.32.0

require github.com/patrickmn/go-cache v2.1.0+incompatible

require github.com/pkg/errors v0.9.1

require github.com/projectcalico/go-json v0.0.0-20161128004156-6219dc7339ba

require github.com/projectcalico/go-yaml-wrapper v0.0.0-20191112210931-090425220c54

require github.com/prometheus/client_golang v1.18.0

require github.com/prometheus/client_model v0.6.0

require github.com/prometheus/common v0.47.0

require github.com/rakelkar/gonetsh v0.3.2

require github.com/safchain/ethtool v0.0.0-20210803160452-9aa261dae9b1

require github.com/shirou/gopsutil v0.0.0-20190323131628-2cbc9195c892

require github.com/sirupsen/logrus v1.9.3

require github.com/spf13/cobra v1.8.0

require github.com/spf13/pflag v1.0.5

require github.com/spf13/viper v1.18.2

require github.com/tchap/go-patricia/v2 v2.3.1

require github.com/termie/go-shutil v0.0.0-20140729215957-bcacb06fecae

require github.com/vishvananda/netlink v1.2.1-beta.2.0.20230206183746-70ca0345eede

require go.etcd.io/etcd/api/v3 v3.5.12

require go.etcd.io/etcd/client/pkg/v3 v3.5.12

require go.etcd.io/etcd/client/v2 v2.305.12

require go.etcd.io/etcd/client/v3 v3.5.12

require golang.org/x/crypto v0.38.0

require golang.org/x/net v0.40.0

require golang.org/x/sync v0.14.0

require golang.org/x/sys v0.33.0

require golang.org/x/text v0.25.0

require golang.org/x/time v0.5.0

require golang.zx2c4.com/wireguard/wgctrl v0.0.0-20200324154536-ceff61240acf

require google.golang.org/genproto/googleapis/rpc v0.0.0-20240205150955-31a09d347014

require google.golang.org/grpc v1.61.1

require gopkg.in/go-playground/validator.v9 v9.30.2

require gopkg.in/natefinch/lumberjack.v2 v2.2.1

require gopkg.in/yaml.v2 v2.4.0

require k8s.io/klog/v2 v2.120.1

require k8s.io/kube-openapi v0.0.0-20231010175941-2dd684a91f00

require k8s.io/utils v0.0.0-20240310230437-4693a0247e57

require modernc.org/memory v1.7.2

require sigs.k8s.io/controller-runtime v0.15.3

require sigs.k8s.io/kind v0.22.0

require sigs.k8s.io/yaml v1.4.0

require cloud.google.com/go/compute v1.23.3

require cloud.google.com/go/compute/metadata v0.2.3

require github.com/Azure/azure-sdk-for-go v68.0.0+incompatible

require github.com/Azure/go-autorest v14.2.0+incompatible

require github.com/Azure/go-autorest/autorest v0.11.29

require github.com/Azure/go-autorest/autorest/adal v0.9.23

require github.com/Azure/go-autorest/autorest/date v0.3.0

require github.com/Azure/go-autorest/autorest/mocks v0.4.2

require github.com/Azure/go-autorest/autorest/to v0.4.0

require github.com/Azure/go-autorest/autorest/validation v0.3.1

require github.com/Azure/go-autorest/logger v0.2.1

require github.com/Azure/go-autorest/tracing v0.6.0

require github.com/GoogleCloudPlatform/k8s-cloud-provider v1.18.1-0.20220218231025-f11817397a1b

require github.com/JeffAshton/win_pdh v0.0.0-20161109143554-76bb4ee9f0ab

require github.com/Microsoft/go-winio v0.6.2

require github.com/NYTimes/gziphandler v1.1.1

require github.com/StackExchange/wmi v0.0.0-20181212234831-e0a55b97c705

require github.com/alessio/shellescape v1.4.1

require github.com/alexflint/go-filemutex v1.1.0

require github.com/antlr/antlr4/runtime/Go/antlr/v4 v4.0.0-20230305170008-8188dc5388df

require github.com/armon/circbuf v0.0.0-20150827004946-bbbad097214e

require github.com/asaskevich/govalidator v0.0.0-20190424111038-f61b66f89f4a

require github.com/aws/aws-sdk-go v1.44.122

require github.com/aws/aws-sdk-go-v2/credentials v1.17.0

require github.com/aws/aws-sdk-go-v2/internal/configsources v1.3.0

require github.com/aws/aws-sdk-go-v2/internal/endpoints/v2 v2.6.0

require github.com/aws/aws-sdk-go-v2/internal/ini v1.8.0

require github.com/aws/aws-sdk-go-v2/service/internal/accept-encoding v1.11.0

require github.com/aws/aws-sdk-go-v2/service/internal/presigned-url v1.11.0

require github.com/aws/aws-sdk-go-v2/service/sso v1.19.0

require github.com/aws/aws-sdk-go-v2/service/ssooidc v1.22.0

require github.com/aws/aws-sdk-go-v2/service/sts v1.27.0

require github.com/beorn7/perks v1.0.1

require github.com/blang/semver/v4 v4.0.0

require github.com/boombuler/barcode v1.0.1-0.20190219062509-6c824513bacc

require github.com/cenkalti/backoff/v4 v4.2.1

require github.com/cespare/xxhash/v2 v2.2.0

require github.com/checkpoint-restore/go-criu/v5 v5.3.0

require github.com/cilium/ebpf v0.9.1

require github.com/cncf/xds/go v0.0.0-20231109132714-523115ebc101

require github.com/containerd/cgroups v1.1.0

require github.com/containerd/console v1.0.3

require github.com/containerd/errdefs v0.1.0

require github.com/containerd/ttrpc v1.2.2

require github.com/coreos/go-iptables v0.6.0

require github.com/coreos/go-systemd/v22 v22.5.0

require github.com/cpuguy83/go-md2man/v2 v2.0.3

require github.com/cyphar/filepath-securejoin v0.2.4

require github.com/distribution/reference v0.5.0

require github.com/docker/go-units v0.5.0

require github.com/emicklei/go-restful/v3 v3.11.0

require github.com/envoyproxy/protoc-gen-validate v1.0.2

require github.com/euank/go-kmsg-parser v2.0.0+incompatible

require github.com/evanphx/json-patch v4.12.0+incompatible

require github.com/evanphx/json-patch/v5 v5.6.0

require github.com/felixge/httpsnoop v1.0.4

require github.com/ghodss/yaml v1.0.0

require github.com/go-errors/errors v1.4.2

require github.com/go-logr/logr v1.4.1

require github.com/go-logr/stdr v1.2.2

require github.com/go-ole/go-ole v1.2.4

require github.com/go-openapi/jsonpointer v0.19.6

require github.com/go-openapi/jsonreference v0.20.2

require github.com/go-openapi/swag v0.22.3

require github.com/go-playground/locales v0.12.1

require github.com/go-playground/universal-translator v0.0.0-20170327191703-71201497bace

require github.com/go-sql-driver/mysql v1.4.1

require github.com/go-task/slim-sprig v0.0.0-20230315185526-52ccab3ef572

require github.com/godbus/dbus/v5 v5.1.0

require github.com/gofrs/uuid v4.4.0+incompatible

require github.com/golang-jwt/jwt/v4 v4.5.0

require github.com/golang/groupcache v0.0.0-20210331224755-41bb18bfe9da

require github.com/golang/mock v1.6.0

require github.com/google/cadvisor v0.48.1

require github.com/google/cel-go v0.17.7

require github.com/google/gnostic-models v0.6.8

require github.com/google/gofuzz v1.2.0

require github.com/google/pprof v0.0.0-20211214055906-6f57359322fd

require github.com/google/s2a-go v0.1.7

require github.com/googleapis/enterprise-certificate-proxy v0.3.2

require github.com/googleapis/gax-go/v2 v2.12.2

require github.com/gorilla/websocket v1.5.0

require github.com/grpc-ecosystem/go-grpc-prometheus v1.2.0

require github.com/grpc-ecosystem/grpc-gateway/v2 v2.16.0

require github.com/gruntwork-io/go-commons v0.8.0

require github.com/hashicorp/errwrap v1.1.0

require github.com/hashicorp/go-multierror v1.1.1

require github.com/hashicorp/hcl v1.0.0

require github.com/imdario/mergo v0.3.12

require github.com/inconshreveable/mousetrap v1.1.0

require github.com/jmespath/go-jmespath v0.4.0

require github.com/josharian/intern v1.0.0

require github.com/karrick/godirwalk v1.17.0

require github.com/leodido/go-urn v0.0.0-20181204092800-a67a23e1c1af

require github.com/libopenstorage/openstorage v1.0.0

require github.com/lithammer/dedent v1.1.0

require github.com/magiconair/properties v1.8.7

require github.com/mailru/easyjson v0.7.7

require github.com/mattn/go-isatty v0.0.17

require github.com/mattn/go-runewidth v0.0.9

require github.com/mattn/go-zglob v0.0.2-0.20190814121620-e3c945676326

require github.com/mdlayher/genetlink v1.0.0

require github.com/mdlayher/netlink v1.1.0

require github.com/mistifyio/go-zfs v2.1.2-0.20190413222219-f784269be439+incompatible

require github.com/mitchellh/mapstructure v1.5.0

require github.com/moby/spdystream v0.2.0

require github.com/moby/sys/mountinfo v0.6.2

require github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd

require github.com/modern-go/reflect2 v1.0.2

require github.com/mohae/deepcopy v0.0.0-20170603005431-491d3605edfb

require github.com/mrunalp/fileutils v0.5.1

require github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822

require github.com/mxk/go-flowrate v0.0.0-20140419014527-cca7078d478f

require github.com/nxadm/tail v1.4.8

require github.com/opencontainers/go-digest v1.0.0

require github.com/opencontainers/runc v1.1.12

require github.com/opencontainers/runtime-spec v1.0.3-0.20220909204839-494a5a6aca78

require github.com/opencontainers/selinux v1.11.0

require github.com/pelletier/go-toml v1.9.5

require github.com/pelletier/go-toml/v2 v2.1.0

require github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2

require github.com/pquerna/otp v1.2.0

require github.com/prometheus/procfs v0.12.0

require github.com/rubiojr/go-vhd v0.0.0-20200706105327-02e210299021

require github.com/russross/blackfriday/v2 v2.1.0

require github.com/sagikazarmark/locafero v0.4.0

require github.com/sagikazarmark/slog-shim v0.1.0

require github.com/seccomp/libseccomp-golang v0.10.0

require github.com/shirou/w32 v0.0.0-20160930032740-bb4de0191aa4

require github.com/sourcegraph/conc v0.3.0

require github.com/spf13/afero v1.11.0

require github.com/spf13/cast v1.6.0

require github.com/stoewer/go-strcase v1.2.0

require github.com/stretchr/testify v1.9.0

require github.com/subosito/gotenv v1.6.0

require github.com/syndtr/gocapability v0.0.0-20200815063812-42c35b437635

require github.com/urfave/cli v1.22.4

require github.com/vishvananda/netns v0.0.4

require github.com/vmware/govmomi v0.30.6

require go.opencensus.io v0.24.0

require go.opentelemetry.io/contrib/instrumentation/github.com/emicklei/go-restful/otelrestful v0.46.1

require go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc v0.47.0

require go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.47.0

require go.opentelemetry.io/otel v1.23.0

require go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.21.0

require go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc v1.21.0

require go.opentelemetry.io/otel/metric v1.23.0

require go.opentelemetry.io/otel/sdk v1.21.0

require go.opentelemetry.io/otel/trace v1.23.0

require go.opentelemetry.io/proto/otlp v1.0.0

require go.uber.org/atomic v1.10.0

require go.uber.org/multierr v1.11.0

require go.uber.org/zap v1.24.0

require golang.org/x/exp v0.0.0-20230905200255-921286631fa9

require golang.org/x/mod v0.17.0

require golang.org/x/oauth2 v0.17.0

require golang.org/x/term v0.32.0

require golang.org/x/tools v0.21.1-0.20240508182429-e35e4ccd0d2d

require golang.zx2c4.com/wireguard v0.0.20200121

require google.golang.org/api v0.164.0

require google.golang.org/appengine v1.6.8

require google.golang.org/genproto v0.0.0-20240125205218-1f4bbc51befe

require google.golang.org/genproto/googleapis/api v0.0.0-20240205150955-31a09d347014

require google.golang.org/protobuf v1.33.0

require gopkg.in/gcfg.v1 v1.2.3

require gopkg.in/go-playground/assert.v1 v1.2.1

require gopkg.in/inf.v0 v0.9.1

require gopkg.in/ini.v1 v1.67.0

require gopkg.in/tomb.v1 v1.0.0-20141024135613-dd632973f1e7

require gopkg.in/warnings.v0 v0.1.2

require gopkg.in/yaml.v3 v3.0.1

require k8s.io/dynamic-resource-allocation v0.29.15

require k8s.io/gengo v0.0.0-20230829151522-9cce18d56c01

require k8s.io/kms v0.29.15

require sigs.k8s.io/apiserver-network-proxy/konnectivity-client v0.28.0

require sigs.k8s.io/json v0.0.0-20221116044647-bc3834ca7abd

require sigs.k8s.io/structured-merge-diff/v4 v4.4.1

require github.com/projectcalico/calico v1.11.0-cni-plugin.0.20250813170300-a0db560f0520 // indirect

replace github.com/projectcalico/api => github.com/projectcalico/api v0.0.0-20240708202104-e3f70b269c2c

replace k8s.io/api => k8s.io/api v0.29.15

replace k8s.io/apiextensions-apiserver => k8s.io/apiextensions-apiserver v0.29.15

replace k8s.io/apimachinery => k8s.io/apimachinery v0.29.15

replace k8s.io/apiserver => k8s.io/apiserver v0.29.15

replace k8s.io/cli-runtime => k8s.io/cli-runtime v0.29.15

replace k8s.io/client-go => k8s.io/client-go v0.29.15

replace k8s.io/cloud-provider => k8s.io/cloud-provider v0.29.15

replace k8s.io/cluster-bootstrap => k8s.io/cluster-bootstrap v0.29.15

replace k8s.io/code-generator => k8s.io/code-generator v0.29.15

replace k8s.io/component-base => k8s.io/component-base v0.29.15

replace k8s.io/component-helpers => k8s.io/component-helpers v0.29.15

replace k8s.io/controller-manager => k8s.io/controller-manager v0.29.15

replace k8s.io/cri-api => k8s.io/cri-api v0.29.15

replace k8s.io/csi-translation-lib => k8s.io/csi-translation-lib v0.29.15

replace k8s.io/endpointslice => k8s.io/endpointslice v0.29.15

replace k8s.io/kube-aggregator => k8s.io/kube-aggregator v0.29.15

replace k8s.io/kube-controller-manager => k8s.io/kube-controller-manager v0.29.15

replace k8s.io/kube-proxy => k8s.io/kube-proxy v0.29.15

replace k8s.io/kube-scheduler => k8s.io/kube-scheduler v0.29.15

replace k8s.io/kubectl => k8s.io/kubectl v0.29.15

replace k8s.io/kubelet => k8s.io/kubelet v0.29.15

replace k8s.io/kubernetes => k8s.io/kubernetes v1.29.15

replace k8s.io/legacy-cloud-providers => k8s.io/legacy-cloud-providers v0.29.15

replace k8s.io/metrics => k8s.io/metrics v0.29.15

replace k8s.io/mount-utils => k8s.io/mount-utils v0.29.15

replace k8s.io/pod-security-admission => k8s.io/pod-security-admission v0.29.15

replace k8s.io/sample-apiserver => k8s.io/sample-apiserver v0.29.15

replace sigs.k8s.io/knftables => sigs.k8s.io/knftables v0.0.17-0.20240627140917-8d2660d78107
