// Points in space, to be turned: three.js, which is loaded when there are some.
export async function cloud(canvas, data) {
  const THREE = await import("./vendor/three.module.min.js");
  const { OrbitControls } = await import("./vendor/OrbitControls.js");
  const values = new Float32Array(data);
  const count = values.length / 4;
  const places = new Float32Array(count * 3);
  const colours = new Float32Array(count * 3);
  for (let i = 0; i < count; i += 1) {
    places.set(values.subarray(i * 4, i * 4 + 3), i * 3);
    const light = values[i * 4 + 3];
    colours.set([0.25 + 0.75 * light, 0.55 + 0.3 * light * (1 - light), 1 - 0.75 * light], i * 3);
  }
  const renderer = new THREE.WebGLRenderer({ canvas, antialias: true, alpha: true });
  const scene = new THREE.Scene();
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.BufferAttribute(places, 3));
  geometry.setAttribute("color", new THREE.BufferAttribute(colours, 3));
  geometry.computeBoundingSphere();
  const radius = Math.max(1e-6, geometry.boundingSphere ? geometry.boundingSphere.radius : 1);
  const centre = geometry.boundingSphere ? geometry.boundingSphere.center : new THREE.Vector3();
  const material = new THREE.PointsMaterial({ size: 2, sizeAttenuation: false, vertexColors: true });
  scene.add(new THREE.Points(geometry, material));
  scene.add(new THREE.AxesHelper(radius / 4));
  const camera = new THREE.PerspectiveCamera(50, 1, radius / 1000, radius * 100);
  camera.up.set(0, 0, 1);
  camera.position.copy(centre).add(new THREE.Vector3(-radius * 1.2, -radius * 0.8, radius * 0.8));
  const controls = new OrbitControls(camera, canvas);
  controls.target.copy(centre);
  let waiting = false;
  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const [wide, high] = [canvas.clientWidth || 1, canvas.clientHeight || 1];
      renderer.setPixelRatio(window.devicePixelRatio || 1);
      renderer.setSize(wide, high, false);
      camera.aspect = wide / high;
      camera.updateProjectionMatrix();
      renderer.render(scene, camera);
    });
  }
  controls.addEventListener("change", draw);
  controls.listenToKeyEvents(canvas);
  controls.update();
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  draw();
  return {
    count,
    close: () => {
      observer.disconnect();
      controls.dispose();
      geometry.dispose();
      material.dispose();
      renderer.dispose();
    },
  };
}
