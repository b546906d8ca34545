import ObjectStorage

/// The settings of each store's SDKs and tools, by their names (botocore 1.44, aws-cli 2, alibabacloud_credentials 1.0, ossutil
/// 2, coscmd 1.8, coscli 1.0, tccli 3.1, qiniu 7.18, openstacksdk 4.22, python-swiftclient 4.8).
extension ToolSetting {
    package static let table = everywhere + amazon + amazonFiles + alibaba + tencent + others + openStack

    private static func read(_ store: BucketURL.Scheme?, _ names: [String]) -> [ToolSetting] {
        names.map { ToolSetting(store, $0, .read) }
    }

    private static func meaningless(_ store: BucketURL.Scheme, _ names: [String]) -> [ToolSetting] {
        names.map { ToolSetting(store, $0, .meaningless) }
    }

    private static let everywhere: [ToolSetting] =
        [
            // curl(1) ignores this name in capitals: it could come from a request to a CGI program.
            ToolSetting(nil, "HTTP_PROXY", .option(["proxy"]), isGrave: true),
            ToolSetting(nil, "SSL_CERT_DIR", .option(["ca-file"]), if: .allBut("/etc/ssl/certs"), isGrave: true),
        ] + read(nil, ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])

    // MARK: Amazon

    private static let amazon: [ToolSetting] =
        read(
            .s3,
            [
                "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE",
                "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE",
                "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
                "AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_SSO", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME",
                "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_V1_DISABLED",
                "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "AWS_IMDS_USE_IPV6",
            ])
        + [
            ToolSetting(.s3, "AWSACCESSKEYID", .remedy("set AWS_ACCESS_KEY_ID"), isGrave: true),
            ToolSetting(.s3, "S3_ENDPOINT_URL", .option(["endpoint"]), isGrave: true),
            ToolSetting(.s3, "AWS_MAX_ATTEMPTS", .option(["retries"])),
            ToolSetting(.s3, "AWS_RETRY_MODE", .option(["retries", "timeout"])),
            ToolSetting(.s3, "AWS_DEFAULTS_MODE", .option(["timeout", "connect-timeout", "retries"])),
            ToolSetting(.s3, "AWS_METADATA_SERVICE_TIMEOUT", .option(["timeout", "connect-timeout"])),
            ToolSetting(.s3, "AWS_METADATA_SERVICE_NUM_ATTEMPTS", .option(["retries"])),
            ToolSetting(.s3, "AWS_SDK_UA_APP_ID", .option(["user-agent-mark"])),
            ToolSetting(
                .s3, "AWS_STS_REGIONAL_ENDPOINTS", .remedy("set AWS_ENDPOINT_URL_STS to https://sts.amazonaws.com"),
                if: .one("legacy")),
            ToolSetting(.s3, "AWS_S3_US_EAST_1_REGIONAL_ENDPOINT", .option(["endpoint"]), if: .one("legacy")),
            ToolSetting(.s3, "AWS_REQUEST_CHECKSUM_CALCULATION", .option(["checksums"]), if: .one("when_required")),
            ToolSetting(.s3, "AWS_RESPONSE_CHECKSUM_VALIDATION", .option(["checksums"]), if: .one("when_required")),
        ]
        + meaningless(
            .s3,
            [
                "AWS_DATA_PATH", "AWS_CSM_ENABLED", "AWS_CSM_HOST", "AWS_CSM_PORT", "AWS_CSM_CLIENT_ID",
                "AWS_ENDPOINT_DISCOVERY_ENABLED", "AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES",
                "AWS_DISABLE_REQUEST_COMPRESSION", "AWS_SIGV4A_SIGNING_REGION_SET", "AWS_ACCOUNT_ID_ENDPOINT_MODE",
                "AWS_DISABLE_HOST_PREFIX_INJECTION", "AWS_AUTH_SCHEME_PREFERENCE",
                "AWS_S3_DISABLE_EXPRESS_SESSION_AUTH", "AWS_S3_USE_ARN_REGION",
                "AWS_S3_DISABLE_MULTIREGION_ACCESS_POINTS",
            ])

    /// Settings of a profile. Names below `s3 =` begin with `s3.`.
    private static let amazonFiles: [ToolSetting] =
        [
            "s3.addressing_style", "s3.use_accelerate_endpoint", "s3.use_dualstack_endpoint", "use_dualstack_endpoint",
            "use_fips_endpoint", "ca_bundle", "region", "endpoint_url", "services", "ec2_metadata_service_endpoint",
            "ec2_metadata_service_endpoint_mode", "ec2_metadata_v1_disabled", "imds_use_ipv6",
        ].map { ToolSetting(.awsProfile, .s3, $0, .read) }
        + [
            ToolSetting(.awsProfile, .s3, "max_attempts", .option(["retries"])),
            ToolSetting(.awsProfile, .s3, "retry_mode", .option(["retries", "timeout"])),
            ToolSetting(.awsProfile, .s3, "defaults_mode", .option(["timeout", "connect-timeout", "retries"])),
            ToolSetting(.awsProfile, .s3, "metadata_service_timeout", .option(["timeout", "connect-timeout"])),
            ToolSetting(.awsProfile, .s3, "metadata_service_num_attempts", .option(["retries"])),
            ToolSetting(.awsProfile, .s3, "sdk_ua_app_id", .option(["user-agent-mark"])),
            ToolSetting(
                .awsProfile, .s3, "sts_regional_endpoints",
                .remedy("set AWS_ENDPOINT_URL_STS to https://sts.amazonaws.com"), if: .one("legacy")),
            ToolSetting(
                .awsProfile, .s3, "request_checksum_calculation", .option(["checksums"]), if: .one("when_required")),
            ToolSetting(
                .awsProfile, .s3, "response_checksum_validation", .option(["checksums"]), if: .one("when_required")),
            ToolSetting(.awsProfile, .s3, "proxy_ca_bundle", .option(["ca-file"]), isGrave: true),
            ToolSetting(
                .awsProfile, .s3, "proxy_client_cert", .remedy("use a proxy that does not require certificates"),
                isGrave: true),
            ToolSetting(
                .awsProfile, .s3, "s3.signature_version", .remedy("use a server that accepts version 4"),
                if: .allBut("s3v4"),
                isGrave: true),
            ToolSetting(
                .awsProfile, .s3, "s3.us_east_1_regional_endpoint", .option(["endpoint"]), if: .one("legacy")),
            ToolSetting(
                .awsProfile, .s3, "s3.max_bandwidth", .option(["upload-limit", "download-limit"]), isGrave: true),
            ToolSetting(.awsProfile, .s3, "s3.max_concurrent_requests", .option(["uploads", "downloads"])),
            ToolSetting(.awsProfile, .s3, "s3.multipart_chunksize", .option(["part-size"])),
            ToolSetting(.awsProfile, .s3, "s3.multipart_threshold", .option(["part-size"])),
        ]
        + ["s3.payload_signing_enabled", "s3.max_queue_size", "s3.use_arn_region", "tcp_keepalive"]
        .map { ToolSetting(.awsProfile, .s3, $0, .meaningless) }

    // MARK: Alibaba Cloud

    private static let alibaba: [ToolSetting] =
        read(
            .oss,
            [
                "OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET", "OSS_SESSION_TOKEN", "OSS_REGION", "OSS_ENDPOINT",
                "OSS_PROFILE", "OSSUTIL_CONFIG_FILE", "ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET",
                "ALIBABA_CLOUD_SECURITY_TOKEN", "ALIBABA_CLOUD_PROFILE", "ALIBABA_CLOUD_CREDENTIALS_FILE",
                "ALIBABA_CLOUD_CREDENTIALS_URI", "ALIBABA_CLOUD_ECS_METADATA", "ALIBABA_CLOUD_ECS_METADATA_DISABLED",
                "ALIBABA_CLOUD_IMDSV1_DISABLED", "ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "ALIBABA_CLOUD_OIDC_TOKEN_FILE",
                "ALIBABA_CLOUD_ROLE_ARN", "ALIBABA_CLOUD_ROLE_SESSION_NAME", "ALIBABA_CLOUD_REGION_ID",
                "ALIBABA_CLOUD_CLI_PROFILE_DISABLED", "ALIBABA_CLOUD_CA_BUNDLE", "ALIBABA_CLOUD_STS_REGION",
                "ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED",
            ])
        + [
            ToolSetting(
                .oss, "OSS_ROLE_ARN", .remedy("write mode=RamRoleArn and role-arn into ~/.ossutilconfig"), isGrave: true
            ),
            ToolSetting(.oss, "ALIYUN_ACCESS_KEY_ID", .remedy("set ALIBABA_CLOUD_ACCESS_KEY_ID"), isGrave: true),
            ToolSetting(.oss, "ALICLOUD_ACCESS_KEY", .remedy("set ALIBABA_CLOUD_ACCESS_KEY_ID"), isGrave: true),
            // Without `-` and `_`, as ossutil compares them.
            ToolSetting(.ossutil, .oss, "proxy", .option(["proxy"]), isGrave: true),
            ToolSetting(.ossutil, .oss, "proxyhost", .option(["proxy"]), isGrave: true),
            ToolSetting(.ossutil, .oss, "skipverifycert", .option(["ca-file"]), if: .yes, isGrave: true),
            ToolSetting(.ossutil, .oss, "skipverifycertificate", .option(["ca-file"]), if: .yes, isGrave: true),
            ToolSetting(.ossutil, .oss, "addressingstyle", .option(["path-style"]), if: .one("path"), isGrave: true),
            ToolSetting(.ossutil, .oss, "signversion", .option(["signature"]), if: .one("v1"), isGrave: true),
            ToolSetting(.ossutil, .oss, "retrytimes", .option(["retries"])),
            ToolSetting(.ossutil, .oss, "connecttimeout", .option(["connect-timeout"])),
            ToolSetting(.ossutil, .oss, "readtimeout", .option(["timeout"])),
        ]

    // MARK: Tencent Cloud

    private static let tencent: [ToolSetting] =
        read(
            .cos,
            [
                "TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY", "TENCENTCLOUD_TOKEN", "TENCENTCLOUD_SESSION_TOKEN",
                "TENCENTCLOUD_REGION", "TENCENTCLOUD_APPID", "TENCENTCLOUD_PROFILE", "COS_SECRET_ID", "COS_SECRET_KEY",
                "COS_TOKEN", "COS_SECRETID", "COS_SECRETKEY", "COS_APPID", "COSACCESSKEYID", "COSSECRETACCESSKEY",
                "TCCLI_PROFILE", "TKE_WEB_IDENTITY_TOKEN_FILE", "TKE_ROLE_ARN", "TKE_PROVIDER_ID", "TKE_REGION",
            ])
        + [
            ToolSetting(.cos, "COS_REGION", .option(["region", "endpoint"]), isGrave: true),
            ToolSetting(.cos, "COS_ENDPOINT", .option(["endpoint"]), isGrave: true),
            ToolSetting(.coscmd, .cos, "anonymous", .read),
            ToolSetting(.coscmd, .cos, "schema", .option(["endpoint"]), if: .one("http"), isGrave: true),
            ToolSetting(.coscmd, .cos, "max_thread", .option(["uploads", "downloads"])),
            ToolSetting(.coscmd, .cos, "part_size", .option(["part-size"])),
            ToolSetting(.coscmd, .cos, "retry", .option(["retries"])),
            ToolSetting(.coscmd, .cos, "timeout", .option(["timeout"])),
            ToolSetting(.coscli, .cos, "protocol", .option(["endpoint"]), if: .one("http"), isGrave: true),
        ]

    // MARK: Qiniu, iFlytek

    private static let others: [ToolSetting] =
        read(
            .kodo,
            [
                "QINIU_ACCESS_KEY", "QINIU_SECRET_KEY", "QINIU_BUCKET_URL", "QINIU_CONFIG_FILE", "QINIU_PROFILE",
                "DISABLE_QINIU_SECURE_PROTOCOL", "DISABLE_QINIU_TIMESTAMP_SIGNATURE",
            ]) + read(.cssp, ["CSSP_ACCESS_KEY_ID", "CSSP_ACCESS_KEY_SECRET", "CSSP_URL"])

    // MARK: OpenStack

    private static let openStack: [ToolSetting] =
        read(
            .swift,
            [
                "OS_CLOUD", "OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "OS_CLIENT_VENDOR_FILE", "OS_CACERT",
                "OS_CERT", "OS_KEY", "OS_AUTH_URL", "OS_AUTH_TYPE", "OS_AUTH_PLUGIN", "OS_AUTH_TOKEN", "OS_TOKEN",
                "OS_STORAGE_URL", "OS_USERNAME", "OS_USER_ID", "OS_PASSWORD", "OS_PROJECT_ID", "OS_PROJECT_NAME",
                "OS_TENANT_ID", "OS_TENANT_NAME", "OS_USER_DOMAIN_ID", "OS_USER_DOMAIN_NAME", "OS_PROJECT_DOMAIN_ID",
                "OS_PROJECT_DOMAIN_NAME", "OS_DEFAULT_DOMAIN", "OS_DEFAULT_DOMAIN_ID", "OS_DEFAULT_DOMAIN_NAME",
                "OS_DOMAIN_ID", "OS_DOMAIN_NAME", "OS_APPLICATION_CREDENTIAL_ID", "OS_APPLICATION_CREDENTIAL_NAME",
                "OS_APPLICATION_CREDENTIAL_SECRET", "OS_REGION_NAME", "OS_INTERFACE", "OS_ENDPOINT_TYPE",
                "OS_SERVICE_TYPE", "OS_IDENTITY_API_VERSION", "OS_AUTH_VERSION", "OS_OBJECT_STORE_ENDPOINT_OVERRIDE",
                "ST_AUTH", "ST_USER", "ST_KEY", "ST_AUTH_VERSION", "RCLONE_CONFIG",
            ])
        + [
            ToolSetting(.swift, "OS_INSECURE", .option(["ca-file"]), if: .yes, isGrave: true),
            ToolSetting(.swift, "SWIFTCLIENT_INSECURE", .option(["ca-file"]), if: .yes, isGrave: true),
            ToolSetting(.swift, "OS_TRUST_ID", .remedy("use an application credential"), isGrave: true),
            ToolSetting(.swift, "OS_SYSTEM_SCOPE", .remedy("set OS_PROJECT_NAME"), isGrave: true),
            ToolSetting(.swift, "OS_PASSCODE", .remedy("use an application credential"), isGrave: true),
            ToolSetting(.cloud, .swift, "cacert", .read),
            ToolSetting(.cloud, .swift, "cert", .read),
            ToolSetting(.cloud, .swift, "key", .read),
            ToolSetting(.cloud, .swift, "verify", .option(["ca-file"]), if: .no, isGrave: true),
            ToolSetting(.cloud, .swift, "insecure", .option(["ca-file"]), if: .yes, isGrave: true),
            ToolSetting(.cloud, .swift, "trust_id", .remedy("use an application credential"), isGrave: true),
            ToolSetting(.cloud, .swift, "system_scope", .remedy("set project_name"), isGrave: true),
            ToolSetting(.cloud, .swift, "api_timeout", .option(["timeout"])),
        ]
}
