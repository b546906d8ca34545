import CLinux

/// The page size: the unit of the processor's memory, of the page cache and of the kernel's requests to a file system.
package enum MemoryPage {
    /// In bytes: 4 KiB on x86-64; 4, 16 or 64 KiB on arm64, as the kernel was built.
    package static let size = Int64(linux_page_size())
}
